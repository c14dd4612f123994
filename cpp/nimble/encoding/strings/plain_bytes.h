// plain_bytes: strings unencoded, in the blocks of string_blocks.h.
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Always possible. Used if no other encoding is smaller.
// REQUIRES: values.type.kind == kBytes.
Status encode_plain_bytes(const Values& values, SegmentBuilder* out);

// REQUIRES: `head` is after the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_plain_bytes(ByteReader* head,
                                                  const DecodeContext& context);

}  // namespace nimble
