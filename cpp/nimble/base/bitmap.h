// Bitmaps in Arrow's layout: bit i is bit i % 8 of byte i / 8.
#pragma once

#include <bit>

#include "nimble/base/bytes.h"

namespace nimble {

inline bool get_bit(const uint8_t* bits, uint64_t i) {
  return ((bits[i / 8] >> (i % 8)) & 1) != 0;
}
inline void set_bit(uint8_t* bits, uint64_t i) {
  bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | (1u << (i % 8)));
}
inline void clear_bit(uint8_t* bits, uint64_t i) {
  bits[i / 8] = static_cast<uint8_t>(bits[i / 8] & ~(1u << (i % 8)));
}
inline void put_bit(uint8_t* bits, uint64_t i, bool value) {
  if (value) {
    set_bit(bits, i);
  } else {
    clear_bit(bits, i);
  }
}

// Copies n bits from bit `from` of `source` to bit `to` of `target`. Does not
// read bytes outside the two ranges. Other bits of `target` do not change.
void copy_bits(const uint8_t* source, uint64_t from, uint64_t n,
               uint8_t* target, uint64_t to);
// Sets or clears bits [begin, begin + n).
void fill_bits(uint8_t* bits, uint64_t begin, uint64_t n, bool value);
// Number of ones among bits [begin, begin + n).
uint64_t count_bits(const uint8_t* bits, uint64_t begin, uint64_t n);

}  // namespace nimble
