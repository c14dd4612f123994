// alp: floats that are decimals in disguise. Value = n * 10^f / 10^e for an
// integer n; what does not come back bit for bit is an exception.
//
// Head:  e u8 | f u8 | child: n, signed integers of the value's width
//        | has_patches u8 | Patches where 1
//        value = double(n) * P[f] * I[e], in this order, in double precision,
//        rounded to the value's type at the end; |n| < 2^51.
//        P[i] = 10^i, I[i] = 10^-i, correctly rounded; f <= e <= 18.
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

struct AlpExponents {
  uint8_t e = 0;
  uint8_t f = 0;
  // From the sample that chose them.
  double bits_per_value = 0;
};

// The best exponents for a sample of 32 values.
AlpExponents choose_alp_exponents(const Values& values);
// False where more than an eighth of the values would be exceptions: nothing
// is written then.
Result<bool> encode_alp(const Values& values, const AlpExponents& exponents,
                        const EncodeContext& context, SegmentBuilder* out);
Result<std::unique_ptr<Decoder>> open_alp(ByteReader* head,
                                          const DecodeContext& context);

}  // namespace nimble
