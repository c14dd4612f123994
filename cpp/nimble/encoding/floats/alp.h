// alp: floats that were decimals. Value = n * 10^f / 10^e for an integer n.
// Values that this does not reproduce bit for bit are exceptions.
//
// Head:  e u8 | f u8 | child: n, signed integers of the value's width
//        | has_patches u8 | Patches, if has_patches is 1
//        value = double(n) * P[f] * I[e], in this order, in double precision,
//        rounded to the value's type at the end; |n| < 2^51.
//        P[i] = 10^i, I[i] = 10^-i, correctly rounded; f <= e <= 18.
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// The exponents e and f of a segment.
struct AlpExponents {
  uint8_t e = 0;
  uint8_t f = 0;
  // Estimated from the sample.
  double bits_per_value = 0;
};

// Chooses the best exponents for a sample of 32 values.
AlpExponents choose_alp_exponents(const Values& values);
// Encodes `values`. Writes nothing and returns false if more than an eighth of
// the values would be exceptions.
Result<bool> encode_alp(const Values& values, const AlpExponents& exponents,
                        const EncodeContext& context, SegmentBuilder* out);
// REQUIRES: `head` is after the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_alp(ByteReader* head,
                                          const DecodeContext& context);

}  // namespace nimble
