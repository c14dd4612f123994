// sparse_bits: booleans that are nearly all equal, as the rows of the rarer
// value.
//
// Head:  the common value u8, 0 or 1 | PatchPositions
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Encodes `values` and appends head and body to `out`.
Status encode_sparse_bits(const Values& values, SegmentBuilder* out);
// Bytes of body needed for `rare` bits of the rarer value.
uint64_t sparse_bits_bytes(uint32_t num_values, uint64_t rare);
// REQUIRES: `head` is after the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_sparse_bits(ByteReader* head,
                                                  const DecodeContext& context);

}  // namespace nimble
