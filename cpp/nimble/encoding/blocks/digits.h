// Eight digits at a time in a 64-bit word: numbers to text without a loop.
#pragma once

#include "nimble/base/bytes.h"

namespace nimble {

// Eight decimal digits of v < 10^8, the first in the lowest byte. Halves of
// four, two and one digit are divided off in all lanes at once; the divisions
// are multiplications, exact for the ranges that occur.
inline uint64_t decimal_digits(uint64_t v) {
  const uint64_t fours = (v / 10000) | (v % 10000) << 32;
  const uint64_t hundreds = ((fours * 10486) >> 20) & 0x0000007f0000007full;
  const uint64_t pairs = hundreds | (fours - hundreds * 100) << 16;
  const uint64_t tens = ((pairs * 103) >> 10) & 0x000f000f000f000full;
  return (tens | (pairs - tens * 10) << 8) + 0x3030303030303030ull;
}

// Four decimal digits of v < 10^4 in the same way: a loop of these is vector
// code, where 64-bit products are not.
inline uint32_t four_digits(uint32_t v) {
  const uint32_t hundreds = (v * 10486) >> 20;
  const uint32_t pairs = hundreds | (v - hundreds * 100) << 16;
  const uint32_t tens = ((pairs * 103) >> 10) & 0x000f000fu;
  return (tens | (pairs - tens * 10) << 8) + 0x30303030u;
}

// The eight lowest hexadecimal digits of v, the first in the lowest byte.
// `letters` is what 10 needs beyond '0' + 10: 39 for 'a', 7 for 'A'.
inline uint64_t hex_digits(uint64_t v, uint64_t letters) {
  uint64_t x = __builtin_bswap32(static_cast<uint32_t>(v));
  x = (x | x << 16) & 0x0000ffff0000ffffull;
  x = (x | x << 8) & 0x00ff00ff00ff00ffull;
  x = (x >> 4 & 0x000f000f000f000full) | (x & 0x000f000f000f000full) << 8;
  const uint64_t above_nine =
      ((x + 0x0606060606060606ull) >> 4) & 0x0101010101010101ull;
  return x + 0x3030303030303030ull + above_nine * letters;
}

// Of one of 0-9, a-f, A-F; for letters bit 6 is set and 'a' ends in 1.
inline uint64_t digit_value(uint8_t c) { return (c & 15u) + 9u * (c >> 6); }

}  // namespace nimble
