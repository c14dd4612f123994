#include "nimble/encoding/ints/spread.h"

#include <algorithm>
#include <array>
#include <bit>

#include "nimble/base/bytes.h"
#include "nimble/base/compiler.h"

namespace nimble {
namespace {

// For every pattern of N bits: the index of each row's value, which is the
// number of ones below the row's bit. Indexes are as wide as the values,
// because a shuffle requires that.
template <class T, uint32_t N>
using Places = std::array<std::array<T, N>, 1u << N>;

template <class T, uint32_t N>
constexpr Places<T, N> make_places() {
  Places<T, N> out{};
  for (uint32_t b = 0; b < out.size(); ++b) {
    T ones = 0;
    for (uint32_t i = 0; i < N; ++i) {
      out[b][i] = ones;
      ones = static_cast<T>(ones + (b >> i & 1));
    }
  }
  return out;
}

// Number of ones in a group of N bits.
template <uint32_t N, class Row>
NIMBLE_ALWAYS_INLINE uint32_t count_of(const Row& places, uint32_t bits) {
  return static_cast<uint32_t>(places[N - 1]) + (bits >> (N - 1));
}

// Writes rows that do not fill a group. Branch-free.
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

// The indexes are used in a shuffle. If the processor has one, a group of rows
// takes one instruction.
template <class T, uint32_t N>
struct Group {
  static constexpr Places<T, N> kPlaces = make_places<T, N>();
  typedef T Lanes __attribute__((vector_size(N * sizeof(T))));

  NIMBLE_ALWAYS_INLINE static uint32_t spread(uint32_t bits,
                                              const uint8_t* values, T usual,
                                              uint8_t* out) {
    Lanes in, places, bit_of;
    std::memcpy(&in, values, sizeof in);
    std::memcpy(&places, kPlaces[bits].data(), sizeof places);
    for (uint32_t i = 0; i < N; ++i) bit_of[i] = static_cast<T>(1u << i);
    const Lanes set = (Lanes{} + static_cast<T>(bits)) & bit_of;
    const Lanes others = __builtin_shuffle(in, places);
    const Lanes rows = set != 0 ? others : Lanes{} + usual;
    std::memcpy(out, &rows, sizeof rows);
    return count_of<N>(kPlaces[bits], bits);
  }
};

// One-byte values: two groups of eight.
template <>
struct Group<uint8_t, 16> {
  static constexpr Places<uint8_t, 8> kPlaces = make_places<uint8_t, 8>();
  typedef uint8_t Lanes __attribute__((vector_size(16)));
  typedef uint64_t Halves __attribute__((vector_size(16)));

  NIMBLE_ALWAYS_INLINE static uint32_t spread(uint32_t bits,
                                              const uint8_t* values,
                                              uint8_t usual, uint8_t* out) {
    constexpr uint64_t kEach = 0x0101010101010101;
    constexpr uint64_t kBits = 0x8040201008040201;
    const uint32_t low = bits & 255, high = bits >> 8;
    const uint32_t count = count_of<8>(kPlaces[low], low);
    const Halves places = {
        load<uint64_t>(kPlaces[low].data()),
        load<uint64_t>(kPlaces[high].data()) + count * kEach};
    const Halves set = {low * kEach & kBits, high * kEach & kBits};
    Lanes in;
    std::memcpy(&in, values, sizeof in);
    const Lanes others =
        __builtin_shuffle(in, reinterpret_cast<const Lanes&>(places));
    const Lanes rows =
        reinterpret_cast<const Lanes&>(set) != 0 ? others : Lanes{} + usual;
    std::memcpy(out, &rows, sizeof rows);
    return count + count_of<8>(kPlaces[high], high);
  }
};

#else

template <class T, uint32_t N>
struct Group {
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
  // With at most this many set bits in 64 rows, storing values one by one is
  // faster than by groups.
  constexpr int kFewOthers = 32 / N;
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
    if (n == 64 && std::popcount(bits) <= kFewOthers) {
      for (uint32_t i = 0; i < 64; ++i) store(out + i * sizeof(T), usual);
      for (; bits != 0; bits &= bits - 1, values += sizeof(T)) {
        store(out + static_cast<uint32_t>(std::countr_zero(bits)) * sizeof(T),
              load<T>(values));
      }
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

// Values of any width. Selects the source address without a branch, which would
// be unpredictable.
NIMBLE_ALWAYS_INLINE void spread_bytes(const uint64_t* where, uint32_t from,
                                       uint32_t to, uint32_t width,
                                       const uint8_t* values,
                                       const uint8_t* common, uint8_t* out) {
  const uint8_t* source[2] = {common, values};
  for (uint32_t row = from; row < to; ++row, out += width) {
    const uint64_t bit = where[row / 64] >> (row % 64) & 1;
    std::memcpy(out, source[bit], width);
    source[1] += bit * width;
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
    case 16:
      return spread_bytes(where, from, to, 16, values, common, out);
    default:
      return spread_bytes(where, from, to, width, values, common, out);
  }
}

}  // namespace nimble
