// Integers of width 1, 2, 4 and 8 as 64-bit patterns: sign-extended if the type
// is signed, else zero-extended. Differences are then correct modulo 2^64, and
// truncating restores the value.
#pragma once

#include <vector>

#include "nimble/base/bytes.h"
#include "nimble/encoding/core/encoding.h"

namespace nimble {

inline bool is_int_width(uint32_t width) {
  return width == 1 || width == 2 || width == 4 || width == 8;
}
inline bool is_int(const ValueType& type) {
  return type.kind == ValueKind::kInt && is_int_width(type.width);
}

// Calls f with a value of the C++ type of `type`.
// REQUIRES: is_int(type).
template <class F>
decltype(auto) with_int_type(const ValueType& type, F&& f) {
  switch (type.width) {
    case 1:
      return type.is_signed ? f(int8_t{}) : f(uint8_t{});
    case 2:
      return type.is_signed ? f(int16_t{}) : f(uint16_t{});
    case 4:
      return type.is_signed ? f(int32_t{}) : f(uint32_t{});
    default:
      return type.is_signed ? f(int64_t{}) : f(uint64_t{});
  }
}

inline uint64_t load_int(const ValueType& type, const uint8_t* data,
                         uint64_t i) {
  return with_int_type(type, [&](auto tag) {
    using T = decltype(tag);
    return static_cast<uint64_t>(load<T>(data + i * sizeof(T)));
  });
}
// Stores the low `width` bytes of `value`.
// REQUIRES: is_int_width(width).
NIMBLE_ALWAYS_INLINE void store_int(uint32_t width, uint64_t value,
                                    uint8_t* to) {
  switch (width) {
    case 1:
      return store(to, static_cast<uint8_t>(value));
    case 2:
      return store(to, static_cast<uint16_t>(value));
    case 4:
      return store(to, static_cast<uint32_t>(value));
    default:
      return store(to, value);
  }
}
inline bool int_less(bool is_signed, uint64_t a, uint64_t b) {
  return is_signed ? static_cast<int64_t>(a) < static_cast<int64_t>(b) : a < b;
}

// The minimum and maximum of several values, as 64-bit patterns.
struct MinMax {
  uint64_t min = 0;
  uint64_t max = 0;
  uint32_t width() const { return bit_width_of(max - min); }
};
// The minimum and maximum of n values, as 64-bit patterns.
// REQUIRES: n > 0.
MinMax min_max(const ValueType& type, const uint8_t* data, uint32_t n);
// The minimum and maximum of every block of kBlockValues values.
std::vector<MinMax> block_min_max(const Values& values);
// The minimum and maximum of all blocks; {0, 0} without blocks.
MinMax total_min_max(const ValueType& type, const std::vector<MinMax>& blocks);

// Converts n values to 64-bit patterns.
void widen_ints(const ValueType& type, const uint8_t* data, uint32_t n,
                uint64_t* out);
// Truncates n 32-bit words to `width` bytes.
void narrow_ints32(const uint32_t* values, uint32_t n, uint32_t width,
                   uint8_t* out);

}  // namespace nimble
