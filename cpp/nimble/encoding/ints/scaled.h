// scaled: integers that are a base plus multiples of a common divisor, such as
// times in whole seconds, prices in steps of 5, or sizes in pages. Also numbers
// that grow by a constant step from row to row.
//
// Head:  base u64 | step u64 | divisor varint
//        | child: multiples, unsigned ints of the type's width
//
// Value = base + row * step + multiple * divisor.
// docs/format/encodings_numeric.md has the bytes.
#pragma once

#include <optional>

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Value = base + row * step + multiple * divisor.
struct Scale {
  uint64_t base = 0;  // 64-bit patterns
  uint64_t step = 0;
  uint64_t divisor = 1;
};

// The greatest common divisor of all differences from `base`, if it is above 1.
// REQUIRES: `base` is the smallest value; `hint` is a multiple of the divisor,
// for example the divisor of a sample.
std::optional<Scale> find_scale(const Values& values, uint64_t base,
                                uint64_t hint);
// Whether all adjacent values have the same difference. An example is the ends
// of lists of equal length.
bool is_even(const Values& values);

// REQUIRES: `scale` is the result of find_scale(values).
Status encode_scaled(const Values& values, const Scale& scale,
                     const EncodeContext& context, SegmentBuilder* out);
// REQUIRES: is_even(values).
Status encode_even(const Values& values, const EncodeContext& context,
                   SegmentBuilder* out);

// REQUIRES: `head` is after the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_scaled(ByteReader* head,
                                             const DecodeContext& context);

}  // namespace nimble
