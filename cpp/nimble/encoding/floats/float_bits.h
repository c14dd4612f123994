// float_bits: floats as the integers of their bits. Saves space if the bits
// have structure, such as trailing zeros (scaled): float32 stored as double, or
// bfloat16 stored as float32.
//
// Head:  child: bits, unsigned ints of the float's width, one per value
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Encodes `values` and appends head and body to `out`.
Status encode_float_bits(const Values& values, const EncodeContext& context,
                         SegmentBuilder* out);
// Properties of a sample: the number of trailing bits that are zero in all
// values, and the bits needed for the differences of the rest.
struct FloatBits {
  uint32_t zeros = 0;
  uint32_t bits_per_value = 0;
};
FloatBits sample_float_bits(const Values& values);
// REQUIRES: `head` is after the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_float_bits(ByteReader* head,
                                                 const DecodeContext& context);

}  // namespace nimble
