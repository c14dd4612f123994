// Byte spans, and little-endian loads and stores without alignment
// requirements.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "nimble/base/compiler.h"

namespace nimble {

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian; a big-endian port must swap here");

using ByteSpan = std::span<const uint8_t>;

// Always inlined. Uses the builtin, because with a fortified C library,
// std::memcpy() was a function call for every value in some loops of release
// builds.
template <class T>
NIMBLE_ALWAYS_INLINE T load(const uint8_t* p) {
  T v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
NIMBLE_ALWAYS_INLINE void store(uint8_t* p, T v) {
  __builtin_memcpy(p, &v, sizeof v);
}

// The lowest n bytes of `word`; 0 for n = 0.
// REQUIRES: n <= 8.
inline uint64_t low_bytes(uint64_t word, uint32_t n) {
  return n == 0 ? 0 : word & (~uint64_t{0} >> (64 - 8 * n));
}

inline ByteSpan as_bytes(std::string_view s) {
  return {reinterpret_cast<const uint8_t*>(s.data()), s.size()};
}
inline std::string_view as_string(ByteSpan b) {
  return {reinterpret_cast<const char*>(b.data()), b.size()};
}

// Whether [offset, offset + size) is inside [0, total). Cannot overflow.
inline bool in_bounds(uint64_t offset, uint64_t size, uint64_t total) {
  return offset <= total && size <= total - offset;
}

inline uint64_t div_ceil(uint64_t a, uint64_t b) {
  return a / b + (a % b != 0);
}
inline uint64_t round_up(uint64_t a, uint64_t b) { return div_ceil(a, b) * b; }

// Number of bits needed for v: 0 for 0, 64 for 2^63 and above.
inline uint32_t bit_width_of(uint64_t v) {
  return static_cast<uint32_t>(std::bit_width(v));
}

}  // namespace nimble
