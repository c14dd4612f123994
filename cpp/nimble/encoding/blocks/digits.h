// Converts numbers to text, eight digits at a time in a 64-bit word, without a
// loop.
#pragma once

#include "nimble/base/bytes.h"

namespace nimble {

// Returns the eight decimal digits of v, the first digit in the lowest byte.
// Divides by 10000, 100 and 10 in all lanes at once. The divisions are
// multiplications, exact for the values that occur.
// REQUIRES: v < 10^8.
inline uint64_t decimal_digits(uint64_t v) {
  const uint64_t fours = (v / 10000) | (v % 10000) << 32;
  const uint64_t hundreds = ((fours * 10486) >> 20) & 0x0000007f0000007full;
  const uint64_t pairs = hundreds | (fours - hundreds * 100) << 16;
  const uint64_t tens = ((pairs * 103) >> 10) & 0x000f000f000f000full;
  return (tens | (pairs - tens * 10) << 8) + 0x3030303030303030ull;
}

// Returns the four decimal digits of v, like decimal_digits(). Uses 32-bit
// products, so that a loop over it vectorizes.
// REQUIRES: v < 10^4.
inline uint32_t four_digits(uint32_t v) {
  const uint32_t hundreds = (v * 10486) >> 20;
  const uint32_t pairs = hundreds | (v - hundreds * 100) << 16;
  const uint32_t tens = ((pairs * 103) >> 10) & 0x000f000fu;
  return (tens | (pairs - tens * 10) << 8) + 0x30303030u;
}

// Returns the eight lowest hexadecimal digits of v, the first digit in the
// lowest byte. `letters` is added to digits above 9: 39 gives 'a', 7 gives 'A'.
inline uint64_t hex_digits(uint64_t v, uint64_t letters) {
  uint64_t x = __builtin_bswap32(static_cast<uint32_t>(v));
  x = (x | x << 16) & 0x0000ffff0000ffffull;
  x = (x | x << 8) & 0x00ff00ff00ff00ffull;
  x = (x >> 4 & 0x000f000f000f000full) | (x & 0x000f000f000f000full) << 8;
  const uint64_t above_nine =
      ((x + 0x0606060606060606ull) >> 4) & 0x0101010101010101ull;
  return x + 0x3030303030303030ull + above_nine * letters;
}

// The inverses of decimal_digits() and hex_digits(). Bytes that are zero count
// as the digit 0.
inline uint64_t decimal_value(uint64_t digits) {
  uint64_t x = digits & 0x0f0f0f0f0f0f0f0full;
  x = (x * 10 + (x >> 8)) & 0x00ff00ff00ff00ffull;
  x = (x * 100 + (x >> 16)) & 0x0000ffff0000ffffull;
  return (x * 10000 + (x >> 32)) & 0xffffffffull;
}
inline uint64_t hex_value(uint64_t digits) {
  // See digit_value().
  uint64_t x = (digits & 0x0f0f0f0f0f0f0f0full) +
               9 * ((digits >> 6) & 0x0101010101010101ull);
  x = (x << 4 | x >> 8) & 0x00ff00ff00ff00ffull;
  x = (x << 8 | x >> 16) & 0x0000ffff0000ffffull;
  return (x << 16 | x >> 32) & 0xffffffffull;
}

// Returns the value of a hexadecimal digit: 0-9, a-f or A-F. Only letters have
// bit 6 set. The low four bits of 'a' and 'A' are 1, so 9 is added.
inline uint64_t digit_value(uint8_t c) { return (c & 15u) + 9u * (c >> 6); }

}  // namespace nimble
