#include "nimble/base/bit_packing.h"

#include <algorithm>

#include "nimble/base/unpack_ranges.h"

// The kernels take the width at run time. One row of a block is 128 bytes for
// every width, so the shifts are loop-invariant and the loop over lanes is
// vector code. Kernels specialised by width would only save one branch per row.
// They reach 10 Gvalues/s instead of 7 for 8-byte values, both above memory
// speed, and take 500 KB of code instead of 17 KB (docs/internals/decisions,
// number 8).

namespace nimble {
namespace {

constexpr size_t kRowBytes = 128;

template <class T>
NIMBLE_ALWAYS_INLINE void pack_block(uint32_t width,
                                     const uint8_t* __restrict values, T base,
                                     uint8_t* __restrict out) {
  constexpr uint32_t kBits = sizeof(T) * 8;
  constexpr uint32_t kLanes = kPackValues / kBits;
  if (width == 0) return;
  T words[kLanes] = {};
  uint32_t shift = 0;
  for (uint32_t row = 0; row < kBits; ++row) {
    const uint8_t* v = values + row * kRowBytes;
    for (uint32_t l = 0; l < kLanes; ++l) {
      words[l] |= static_cast<T>((load<T>(v + l * sizeof(T)) - base) << shift);
    }
    shift += width;
    if (shift < kBits) continue;
    std::memcpy(out, words, kRowBytes);
    out += kRowBytes;
    shift -= kBits;
    // The high bits that did not fit. A value without such bits has its own
    // loop, because a condition inside would prevent vectorisation.
    if (shift == 0) {
      std::memset(words, 0, kRowBytes);
      continue;
    }
    for (uint32_t l = 0; l < kLanes; ++l) {
      words[l] = static_cast<T>((load<T>(v + l * sizeof(T)) - base) >>
                                (width - shift));
    }
  }
}

// Unpacks rows [row, end) of a block.
template <class T>
NIMBLE_ALWAYS_INLINE void unpack_rows(uint32_t width,
                                      const uint8_t* __restrict packed,
                                      uint32_t row, uint32_t end, T base,
                                      uint8_t* __restrict out) {
  constexpr uint32_t kBits = sizeof(T) * 8;
  constexpr uint32_t kLanes = kPackValues / kBits;
  if (width == 0) {
    const uint32_t n = (end - row) * kLanes;
    for (uint32_t i = 0; i < n; ++i) store(out + i * sizeof(T), base);
    return;
  }
  const T mask = static_cast<T>(low_bits(width));
  uint32_t shift = row * width % kBits;
  packed += row * width / kBits * kRowBytes;
  for (; row < end; ++row, out += kRowBytes) {
    if (shift + width <= kBits) {
      for (uint32_t l = 0; l < kLanes; ++l) {
        const T v = load<T>(packed + l * sizeof(T)) >> shift;
        store(out + l * sizeof(T), static_cast<T>((v & mask) + base));
      }
    } else {
      for (uint32_t l = 0; l < kLanes; ++l) {
        const T low = load<T>(packed + l * sizeof(T)) >> shift;
        const T high = load<T>(packed + kRowBytes + l * sizeof(T))
                       << (kBits - shift);
        store(out + l * sizeof(T),
              static_cast<T>(((low | high) & mask) + base));
      }
    }
    shift += width;
    if (shift >= kBits) {
      shift -= kBits;
      packed += kRowBytes;
    }
  }
}

// Unpacks values [begin, end) of a block, and less than kUnpackOvershoot bytes
// after them.
template <class T>
NIMBLE_ALWAYS_INLINE void unpack_range(uint32_t width,
                                       const uint8_t* __restrict packed,
                                       uint32_t begin, uint32_t end, T base,
                                       uint8_t* __restrict out) {
  constexpr uint32_t kBits = sizeof(T) * 8;
  constexpr uint32_t kLanes = kPackValues / kBits;
  uint32_t row = begin / kLanes;
  const uint32_t skip = begin % kLanes;
  if (skip > 0) {
    // Unpacks from a lane on. This reads past the row's words, which is only
    // possible before the last row of the block.
    if ((row * width + width - 1) / kBits + 1 < width) {
      unpack_rows(width, packed + skip * sizeof(T), row, row + 1, base, out);
    } else {
      uint8_t whole[kRowBytes];
      unpack_rows(width, packed, row, row + 1, base, whole);
      std::memcpy(out, whole + skip * sizeof(T), kRowBytes - skip * sizeof(T));
    }
    out += (kLanes - skip) * sizeof(T);
    ++row;
  }
  const uint32_t stop = (end + kLanes - 1) / kLanes;
  if (row < stop) unpack_rows(width, packed, row, stop, base, out);
}

template <class T>
NIMBLE_ALWAYS_INLINE uint8_t* unpack_ranges(uint32_t width,
                                            const uint8_t* __restrict packed,
                                            uint64_t first,
                                            std::span<const RowRange> ranges,
                                            T base, uint8_t* __restrict out) {
  for (const RowRange& r : ranges) {
    const auto begin = static_cast<uint32_t>(std::max(r.begin, first) - first);
    const auto end =
        static_cast<uint32_t>(std::min<uint64_t>(r.end - first, kPackValues));
    unpack_range(width, packed, begin, end, base, out);
    out += (end - begin) * sizeof(T);
  }
  return out;
}

template <class T, class Out>
NIMBLE_ALWAYS_INLINE void extract_values(uint32_t width,
                                         const uint8_t* __restrict packed,
                                         T base, const uint32_t* rows, size_t n,
                                         uint8_t* __restrict out) {
  constexpr uint32_t kBits = sizeof(T) * 8;
  if (width == 0) {
    for (size_t i = 0; i < n; ++i) {
      store(out + i * sizeof(Out), static_cast<Out>(base));
    }
    return;
  }
  const T mask = static_cast<T>(low_bits(width));
  for (size_t i = 0; i < n; ++i) {
    const auto [byte, shift] = packed_place<T>(width, rows[i] % kPackValues);
    // No branch: if one word holds the value, the mask removes the other word.
    const size_t next = shift + width > kBits ? kRowBytes : 0;
    const T low = load<T>(packed + byte) >> shift;
    const T high = load<T>(packed + byte + next) << 1 << (kBits - 1 - shift);
    store(out + i * sizeof(Out),
          static_cast<Out>(((low | high) & mask) + base));
  }
}

template <class T>
void pack_stream(uint32_t width, const uint8_t* values, uint32_t n, T base,
                 uint8_t* out) {
  unsigned __int128 word = 0;
  uint32_t filled = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const T v = static_cast<T>(load<T>(values + i * sizeof(T)) - base);
    word |= static_cast<unsigned __int128>(v) << filled;
    filled += width;
    for (; filled >= 8; filled -= 8, word >>= 8) {
      *out++ = static_cast<uint8_t>(word);
    }
  }
  if (filled > 0) *out = static_cast<uint8_t>(word);
}

template <class T>
void unpack_stream(uint32_t width, const uint8_t* packed, uint32_t n, T base,
                   uint8_t* out) {
  for (uint32_t i = 0; i < n; ++i) {
    store(out + i * sizeof(T),
          static_cast<T>(extract_tail(width, packed, n, i) + base));
  }
}

}  // namespace

// `__restrict` is needed here too: inlining drops it from the kernels'
// parameters, and the compiler then does not vectorise 64-bit lanes.
NIMBLE_CLONES void pack32(uint32_t width, const uint8_t* __restrict values,
                          uint32_t base, uint8_t* __restrict out) {
  pack_block<uint32_t>(width, values, base, out);
}
NIMBLE_CLONES void pack64(uint32_t width, const uint8_t* __restrict values,
                          uint64_t base, uint8_t* __restrict out) {
  pack_block<uint64_t>(width, values, base, out);
}
NIMBLE_CLONES void unpack32(uint32_t width, const uint8_t* __restrict packed,
                            uint32_t base, uint8_t* __restrict out) {
  unpack_rows<uint32_t>(width, packed, 0, 32, base, out);
}
NIMBLE_CLONES void unpack64(uint32_t width, const uint8_t* __restrict packed,
                            uint64_t base, uint8_t* __restrict out) {
  unpack_rows<uint64_t>(width, packed, 0, 64, base, out);
}
NIMBLE_CLONES uint8_t* unpack_ranges32(uint32_t width,
                                       const uint8_t* __restrict packed,
                                       uint64_t first,
                                       std::span<const RowRange> ranges,
                                       uint32_t base, uint8_t* __restrict out) {
  return unpack_ranges<uint32_t>(width, packed, first, ranges, base, out);
}
NIMBLE_CLONES uint8_t* unpack_ranges64(uint32_t width,
                                       const uint8_t* __restrict packed,
                                       uint64_t first,
                                       std::span<const RowRange> ranges,
                                       uint64_t base, uint8_t* __restrict out) {
  return unpack_ranges<uint64_t>(width, packed, first, ranges, base, out);
}

NIMBLE_CLONES void extract_rows32(uint32_t width,
                                  const uint8_t* __restrict packed,
                                  uint32_t base, const uint32_t* rows, size_t n,
                                  uint32_t value_bytes,
                                  uint8_t* __restrict out) {
  switch (value_bytes) {
    case 1:
      return extract_values<uint32_t, uint8_t>(width, packed, base, rows, n,
                                               out);
    case 2:
      return extract_values<uint32_t, uint16_t>(width, packed, base, rows, n,
                                                out);
    default:
      return extract_values<uint32_t, uint32_t>(width, packed, base, rows, n,
                                                out);
  }
}
NIMBLE_CLONES void extract_rows64(uint32_t width,
                                  const uint8_t* __restrict packed,
                                  uint64_t base, const uint32_t* rows, size_t n,
                                  uint8_t* __restrict out) {
  extract_values<uint64_t, uint64_t>(width, packed, base, rows, n, out);
}

void pack_tail32(uint32_t width, const uint8_t* __restrict values, uint32_t n,
                 uint32_t base, uint8_t* __restrict out) {
  pack_stream<uint32_t>(width, values, n, base, out);
}
void pack_tail64(uint32_t width, const uint8_t* __restrict values, uint32_t n,
                 uint64_t base, uint8_t* __restrict out) {
  pack_stream<uint64_t>(width, values, n, base, out);
}
void unpack_tail32(uint32_t width, const uint8_t* __restrict packed, uint32_t n,
                   uint32_t base, uint8_t* __restrict out) {
  unpack_stream<uint32_t>(width, packed, n, base, out);
}
void unpack_tail64(uint32_t width, const uint8_t* __restrict packed, uint32_t n,
                   uint64_t base, uint8_t* __restrict out) {
  unpack_stream<uint64_t>(width, packed, n, base, out);
}

}  // namespace nimble
