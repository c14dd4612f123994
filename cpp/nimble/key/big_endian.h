// Big-endian loads and stores. In this byte order, memcmp orders unsigned
// integers by value.
#pragma once

#include <algorithm>

#include "nimble/base/bytes.h"

namespace nimble {

template <class U>
inline U swap_bytes(U v) {
  static_assert(sizeof(U) == 1 || sizeof(U) == 2 || sizeof(U) == 4 ||
                sizeof(U) == 8);
  if constexpr (sizeof(U) == 1) {
    return v;
  } else if constexpr (sizeof(U) == 2) {
    return __builtin_bswap16(v);
  } else if constexpr (sizeof(U) == 4) {
    return __builtin_bswap32(v);
  } else {
    return __builtin_bswap64(v);
  }
}

inline uint64_t load_be64(const uint8_t* p) {
  return swap_bytes(load<uint64_t>(p));
}

// The first 8 of n bytes as a number, padded with zeros. If two heads differ,
// the byte strings have the same order as their heads.
inline uint64_t head_of(const uint8_t* p, size_t n) {
  if (n >= 8) return load_be64(p);
  if (n >= 4) {
    const uint64_t high = swap_bytes(load<uint32_t>(p));
    const uint64_t low = swap_bytes(load<uint32_t>(p + n - 4));
    return (high << 32) | (low << (8 * (8 - n)));
  }
  uint64_t v = 0;
  for (size_t i = 0; i < n; ++i)
    v |= static_cast<uint64_t>(p[i]) << (56 - 8 * i);
  return v;
}

// Stores the last n bytes of v, big-endian.
// REQUIRES: n <= 8.
inline void store_be(uint8_t* p, uint64_t v, size_t n) {
  for (size_t i = 0; i < n; ++i)
    p[i] = static_cast<uint8_t>(v >> (8 * (n - 1 - i)));
}

// The length of the longest common prefix.
inline size_t shared_prefix(ByteSpan a, ByteSpan b) {
  const size_t n = std::min(a.size(), b.size());
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const uint64_t x = load<uint64_t>(&a[i]) ^ load<uint64_t>(&b[i]);
    if (x != 0) return i + static_cast<size_t>(std::countr_zero(x)) / 8;
  }
  while (i < n && a[i] == b[i]) ++i;
  return i;
}

// The sign of a - b in byte order. A proper prefix is smaller.
inline int compare_bytes(ByteSpan a, ByteSpan b) {
  const size_t n = std::min(a.size(), b.size());
  if (n >= 8) {  // usually decides, without a call
    const uint64_t x = load_be64(a.data()), y = load_be64(b.data());
    if (x != y) return x < y ? -1 : 1;
  }
  const int c = n == 0 ? 0 : std::memcmp(a.data(), b.data(), n);
  if (c != 0) return c;
  return a.size() < b.size() ? -1 : a.size() > b.size() ? 1 : 0;
}

}  // namespace nimble
