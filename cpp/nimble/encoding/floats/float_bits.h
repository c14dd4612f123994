// float_bits: floats as the integers that their bits are. Worth it where these
// have structure, such as zeros at the end (scaled): float32 kept as double,
// bfloat16 kept as float32.
//
// Head:  child: bits, unsigned ints of the float's width, one a value
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

Status encode_float_bits(const Values& values, const EncodeContext& context,
                         SegmentBuilder* out);
// What some of the values tell: bits at the end that are zero in all of them,
// and how many the differences of the others need.
struct FloatBits {
  uint32_t zeros = 0;
  uint32_t bits_per_value = 0;
};
FloatBits sample_float_bits(const Values& values);
Result<std::unique_ptr<Decoder>> open_float_bits(ByteReader* head,
                                                 const DecodeContext& context);

}  // namespace nimble
