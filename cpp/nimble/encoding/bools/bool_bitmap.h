// bitmap: booleans, a bit each, least significant bit first.
//
// Block:  8 checksum | ceil(n / 8) bytes of bits: 128 but for the last block
// Head:   part
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

Status encode_bitmap(const Values& values, SegmentBuilder* out);
Result<std::unique_ptr<Decoder>> open_bitmap(ByteReader* head,
                                             const DecodeContext& context);

}  // namespace nimble
