#include "nimble/encoding/ints/spread.h"

#include <algorithm>
#include <array>

#include "nimble/base/bytes.h"
#include "nimble/base/compiler.h"

namespace nimble {
namespace {

// Rows of a bitmap are taken by bytes: row i of byte b has the value that as
// many others precede as b has ones below bit i.
struct Places {
  std::array<std::array<uint8_t, 8>, 256> of;
  constexpr Places() : of() {
    for (uint32_t b = 0; b < 256; ++b) {
      uint8_t ones = 0;
      for (uint32_t i = 0; i < 8; ++i) {
        of[b][i] = ones;
        ones = static_cast<uint8_t>(ones + (b >> i & 1));
      }
    }
  }
  uint64_t row(uint32_t b) const { return load<uint64_t>(of[b].data()); }
  uint32_t count(uint32_t b) const { return of[b][7] + (b >> 7); }
};
constexpr Places kPlaces;

// Rows that are no whole group: without a branch on a bit.
template <class T>
NIMBLE_ALWAYS_INLINE const uint8_t* spread_few(uint64_t bits, uint32_t n,
                                               const uint8_t* values, T usual,
                                               uint8_t* out) {
  for (uint32_t i = 0; i < n; ++i) {
    const uint64_t bit = bits >> i & 1;
    const auto is_other = static_cast<T>(0 - bit);
    store(out + i * sizeof(T),
          static_cast<T>(usual ^ ((load<T>(values) ^ usual) & is_other)));
    values += bit * sizeof(T);
  }
  return values;
}

#if defined(__GNUC__) && !defined(__clang__)

// Places are indexes of a shuffle: one instruction for a group of rows where
// the processor has it.
template <class T, uint32_t N>
struct Group {
  static constexpr uint32_t kRows = N;
  typedef T Lanes __attribute__((vector_size(N * sizeof(T))));
  typedef uint8_t Bytes __attribute__((vector_size(N)));

  NIMBLE_ALWAYS_INLINE static uint32_t spread(uint32_t bits,
                                              const uint8_t* values, T usual,
                                              uint8_t* out) {
    Lanes in, bit_of;
    Bytes places;
    std::memcpy(&in, values, sizeof in);
    std::memcpy(&places, kPlaces.of[bits].data(), sizeof places);
    for (uint32_t i = 0; i < N; ++i) bit_of[i] = static_cast<T>(1u << i);
    const Lanes set = (Lanes{} + static_cast<T>(bits)) & bit_of;
    const Lanes others =
        __builtin_shuffle(in, __builtin_convertvector(places, Lanes));
    const Lanes rows = set != 0 ? others : Lanes{} + usual;
    std::memcpy(out, &rows, sizeof rows);
    return kPlaces.count(bits);
  }
};

// Values of a byte: two groups of eight.
template <>
struct Group<uint8_t, 16> {
  static constexpr uint32_t kRows = 16;
  typedef uint8_t Lanes __attribute__((vector_size(16)));
  typedef uint64_t Halves __attribute__((vector_size(16)));

  NIMBLE_ALWAYS_INLINE static uint32_t spread(uint32_t bits,
                                              const uint8_t* values,
                                              uint8_t usual, uint8_t* out) {
    constexpr uint64_t kEach = 0x0101010101010101;
    constexpr uint64_t kBits = 0x8040201008040201;
    const uint32_t low = bits & 255, high = bits >> 8;
    const uint32_t count = kPlaces.count(low);
    const Halves places = {kPlaces.row(low), kPlaces.row(high) + count * kEach};
    const Halves set = {low * kEach & kBits, high * kEach & kBits};
    Lanes in;
    std::memcpy(&in, values, sizeof in);
    const Lanes others =
        __builtin_shuffle(in, reinterpret_cast<const Lanes&>(places));
    const Lanes rows =
        reinterpret_cast<const Lanes&>(set) != 0 ? others : Lanes{} + usual;
    std::memcpy(out, &rows, sizeof rows);
    return count + kPlaces.count(high);
  }
};

#else

template <class T, uint32_t N>
struct Group {
  static constexpr uint32_t kRows = N;
  static uint32_t spread(uint32_t bits, const uint8_t* values, T usual,
                         uint8_t* out) {
    const uint8_t* const end = spread_few(bits, N, values, usual, out);
    return static_cast<uint32_t>(end - values) / sizeof(T);
  }
};

#endif

template <class T, uint32_t N>
NIMBLE_ALWAYS_INLINE void spread(const uint64_t* where, uint32_t from,
                                 uint32_t to, const uint8_t* values,
                                 const uint8_t* common, uint8_t* out) {
  constexpr uint32_t kMask = (1u << N) - 1;
  const T usual = load<T>(common);
  for (uint32_t row = from; row < to;) {
    const uint32_t n = std::min(64 - row % 64, to - row);
    uint64_t bits = where[row / 64] >> (row % 64);
    row += n;
    if (n == 64 && bits == ~uint64_t{0}) {
      std::memcpy(out, values, 64 * sizeof(T));
      values += 64 * sizeof(T);
      out += 64 * sizeof(T);
      continue;
    }
    if (n == 64 && bits == 0) {
      for (uint32_t i = 0; i < 64; ++i) store(out + i * sizeof(T), usual);
      out += 64 * sizeof(T);
      continue;
    }
    uint32_t i = 0;
    for (; i + N <= n; i += N, bits >>= N, out += N * sizeof(T)) {
      values +=
          sizeof(T) * Group<T, N>::spread(static_cast<uint32_t>(bits) & kMask,
                                          values, usual, out);
    }
    values = spread_few(bits, n - i, values, usual, out);
    out += (n - i) * sizeof(T);
  }
}

}  // namespace

NIMBLE_CLONES void spread_values(const uint64_t* where, uint32_t from,
                                 uint32_t to, uint32_t width,
                                 const uint8_t* values, const uint8_t* common,
                                 uint8_t* out) {
  switch (width) {
    case 1:
      return spread<uint8_t, 16>(where, from, to, values, common, out);
    case 2:
      return spread<uint16_t, 8>(where, from, to, values, common, out);
    case 4:
      return spread<uint32_t, 8>(where, from, to, values, common, out);
    case 8:
      return spread<uint64_t, 4>(where, from, to, values, common, out);
    default:
      for (uint32_t row = from; row < to; ++row, out += width) {
        const bool is_other = (where[row / 64] >> (row % 64) & 1) != 0;
        std::memcpy(out, is_other ? values : common, width);
        if (is_other) values += width;
      }
  }
}

}  // namespace nimble
