// Loads and order-preserving transforms of single values. Used by the column
// kernels, the scalar functions, the decoder and value_text.
#pragma once

#include <limits>
#include <type_traits>

#include "nimble/key/big_endian.h"

namespace nimble {

// An integer of two's complement.
// REQUIRES: width is 1, 2, 4 or 8.
inline int64_t load_signed(const uint8_t* p, size_t width) {
  switch (width) {
    case 1:
      return load<int8_t>(p);
    case 2:
      return load<int16_t>(p);
    case 4:
      return load<int32_t>(p);
    default:
      return load<int64_t>(p);
  }
}

template <class U>
inline constexpr U kSignBit = static_cast<U>(U{1} << (sizeof(U) * 8 - 1));

template <class U>
constexpr U float_infinity() {
  if constexpr (sizeof(U) == 2) {
    return 0x7c00;
  } else if constexpr (sizeof(U) == 4) {
    return 0x7f800000u;
  } else {
    return 0x7ff0000000000000u;
  }
}

// Converts the bits of an IEEE 754 value to an unsigned integer with the same
// order. Both zeros are equal. All NaNs become one value above +infinity.
template <class U>
constexpr U ordered_float(U bits) {
  constexpr U kInfinity = float_infinity<U>();
  constexpr U kQuiet = static_cast<U>(
      kInfinity | (kInfinity & static_cast<U>(~kInfinity + 1)) >> 1);
  const U magnitude = static_cast<U>(bits & static_cast<U>(~kSignBit<U>));
  bits = magnitude > kInfinity ? kQuiet : bits;
  bits = magnitude == 0 ? U{0} : bits;
  const U mask =
      (bits & kSignBit<U>) != 0 ? static_cast<U>(~U{0}) : kSignBit<U>;
  return static_cast<U>(bits ^ mask);
}

template <class U>
constexpr U unordered_float(U ordered) {
  const U mask =
      (ordered & kSignBit<U>) != 0 ? kSignBit<U> : static_cast<U>(~U{0});
  return static_cast<U>(ordered ^ mask);
}

// Converts little-endian two's complement of `width` bytes (16 or 32) to
// big-endian with the sign flipped.
inline void put_wide(uint8_t* out, const uint8_t* value, uint32_t width,
                     uint8_t inversion) {
  const uint64_t invert = inversion != 0 ? ~uint64_t{0} : 0;
  for (uint32_t at = 0; at < width; at += 8) {
    uint64_t word = load<uint64_t>(value + width - 8 - at);
    if (at == 0) word ^= kSignBit<uint64_t>;
    store<uint64_t>(out + at, swap_bytes(word ^ invert));
  }
}

// Zero if no byte of the word is below 2 and so needs an escape. Otherwise the
// lowest bit that is set belongs to the first such byte in memory.
inline uint64_t low_bytes(uint64_t word) {
  constexpr uint64_t kTwos = 0x0202020202020202u, kHighs = 0x8080808080808080u;
  return (word - kTwos) & ~word & kHighs;
}
inline bool needs_escape(ByteSpan s) {
  const size_t n = s.size();
  if (n < 8) {
    for (const uint8_t b : s) {
      if (b < 2) return true;
    }
    return false;
  }
  for (size_t i = 0; i + 8 <= n; i += 8) {
    if (low_bytes(load<uint64_t>(&s[i])) != 0) return true;
  }
  return low_bytes(load<uint64_t>(&s[n - 8])) != 0;
}
inline size_t count_escapes(ByteSpan s) {
  size_t n = 0;
  for (const uint8_t b : s) n += b < 2;
  return n;
}

// Writes the escaped bytes without a terminator. Returns the end.
inline uint8_t* put_escaped(uint8_t* out, ByteSpan s, uint8_t inversion) {
  for (const uint8_t b : s) {
    if (b < 2) *out++ = 1 ^ inversion;
    *out++ = b ^ inversion;
  }
  return out;
}
// Like put_escaped().
// REQUIRES: no byte needs an escape.
inline uint8_t* put_plain(uint8_t* out, ByteSpan s, uint8_t inversion) {
  if (inversion == 0) {
    if (!s.empty()) std::memcpy(out, s.data(), s.size());
  } else {
    for (size_t i = 0; i < s.size(); ++i) {
      out[i] = static_cast<uint8_t>(~s[i]);
    }
  }
  return out + s.size();
}

}  // namespace nimble
