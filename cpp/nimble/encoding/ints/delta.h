// delta: integers as differences from the previous value, packed as offsets
// from the smallest difference of the block. Each block starts anew, so a row
// decodes at most its block.
//
// Block:  8 checksum | 8 first value | 8 smallest difference d
//         | packed offsets o[0..n), o[0] = 0
//         value[0] = first, value[i] = value[i-1] + d + o[i], modulo 2^64 (2^32
//         for values of up to 4 bytes), truncated to the type's width
// Head:   PackedBlocks
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Encodes `values` and appends head and body to `out`.
Status encode_delta(const Values& values, SegmentBuilder* out);
// Returns the size of the body that encode_delta() writes. Reads all values.
uint64_t delta_bytes(const Values& values);
// REQUIRES: `head` is after the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_delta(ByteReader* head,
                                            const DecodeContext& context);

}  // namespace nimble
