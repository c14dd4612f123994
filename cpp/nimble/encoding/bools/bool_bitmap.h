// bitmap: booleans, one bit each, least significant bit first.
//
// Block:  checksum u64 | ceil(n / 8) bytes of bits: 128 in all but the last
// block Head:   part
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Encodes `values` and appends head and body to `out`.
Status encode_bitmap(const Values& values, SegmentBuilder* out);
// REQUIRES: `head` is after the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_bitmap(ByteReader* head,
                                             const DecodeContext& context);

}  // namespace nimble
