// split_float: floats without decimal structure. The high bits (sign, exponent,
// first bits of the mantissa) repeat, and the low bits are noise.
//
// Head:  R u8 | child: high bits, u16 | child: low R bits, unsigned integers of
//        the value's width
//        bits of a value = high << R | low
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// A cut of values above their lowest `low_bits` bits.
struct FloatSplit {
  uint32_t low_bits = 0;      // R: 48..63 for doubles, 16..31 for floats
  double bits_per_value = 0;  // estimated
};

// Chooses the split that makes a sample's high bits smallest.
FloatSplit choose_float_split(const Values& values);
// Encodes `values` and appends head and body to `out`.
Status encode_split_float(const Values& values, uint32_t low_bits,
                          const EncodeContext& context, SegmentBuilder* out);
// REQUIRES: `head` is after the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_split_float(ByteReader* head,
                                                  const DecodeContext& context);

}  // namespace nimble
