// plain_bytes: strings as they are, in the blocks of string_blocks.h.
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Values of kind kBytes. Always possible; what nothing else shrinks.
Status encode_plain_bytes(const Values& values, SegmentBuilder* out);

// `head` is behind the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_plain_bytes(ByteReader* head,
                                                  const DecodeContext& context);

}  // namespace nimble
