// scaled: integers that are a base and multiples of a common divisor: times
// that are whole seconds, prices in steps of 5, sizes in pages; or numbers that
// go up by the same step from row to row.
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

struct Scale {
  uint64_t base = 0;  // 64-bit patterns
  uint64_t step = 0;
  uint64_t divisor = 1;
};

// The largest divisor of all differences from `base`, the least value, if it
// is above 1; `hint` is a multiple of it, what some of the values have.
std::optional<Scale> find_scale(const Values& values, uint64_t base,
                                uint64_t hint);
// Do all neighbours differ by the same, as the ends of lists of one length do?
bool is_even(const Values& values);

// `scale` of find_scale(values).
Status encode_scaled(const Values& values, const Scale& scale,
                     const EncodeContext& context, SegmentBuilder* out);
// Of values that are even.
Status encode_even(const Values& values, const EncodeContext& context,
                   SegmentBuilder* out);

Result<std::unique_ptr<Decoder>> open_scaled(ByteReader* head,
                                             const DecodeContext& context);

}  // namespace nimble
