// Bit packing: unsigned integers of W bits, 0 <= W <= bits of the lane word.
//
// A full block holds kPackValues = 1024 values in words of T bits: T = 32 for
// values of up to 4 bytes, and T = 64 for 8-byte values. The block has lanes =
// 1024 / T lanes. Value i is row r = i / lanes of lane l = i % lanes. It takes
// bits [r*W, (r+1)*W) of its lane's stream of words, least significant bit
// first. Word w of lane l is stored at word w*lanes + l. Adjacent values are
// therefore in adjacent words at the same shift, so compilers vectorize the
// loops. A full block takes 128*W bytes for any T.
//
// A block of n < 1024 values is a plain little-endian bit stream: value i takes
// bits [i*W, (i+1)*W) of ceil(n*W/8) bytes. Small dictionaries and short files
// therefore need no padding.
//
// Every value is stored as an offset from a base, which is added back modulo
// 2^T. Pointers need no alignment.
#pragma once

#include "nimble/base/bytes.h"
#include "nimble/base/compiler.h"

namespace nimble {

inline constexpr uint32_t kPackValues = 1024;

// Size in bytes of `n` packed values.
// REQUIRES: n < 2^58; width <= 64.
constexpr uint64_t packed_bytes(uint64_t n, uint32_t width) {
  return (n * width + 7) / 8;
}
// Mask of the low `width` bits.
// REQUIRES: width <= 64.
constexpr uint64_t low_bits(uint32_t width) {
  return width == 0 ? 0 : ~uint64_t{0} >> (64 - width);
}

// Full blocks: pack 1024 words to 128*width bytes, and unpack them.
// REQUIRES: `width` is at most 32 or 64; bits of (value - base) above it are
// zero.
void pack32(uint32_t width, const uint8_t* values, uint32_t base, uint8_t* out);
void pack64(uint32_t width, const uint8_t* values, uint64_t base, uint8_t* out);
void unpack32(uint32_t width, const uint8_t* packed, uint32_t base,
              uint8_t* out);
void unpack64(uint32_t width, const uint8_t* packed, uint64_t base,
              uint8_t* out);

// Blocks of n < 1024 values. They read and write exactly packed_bytes(n,
// width).
void pack_tail32(uint32_t width, const uint8_t* values, uint32_t n,
                 uint32_t base, uint8_t* out);
void pack_tail64(uint32_t width, const uint8_t* values, uint32_t n,
                 uint64_t base, uint8_t* out);
void unpack_tail32(uint32_t width, const uint8_t* packed, uint32_t n,
                   uint32_t base, uint8_t* out);
void unpack_tail64(uint32_t width, const uint8_t* packed, uint32_t n,
                   uint64_t base, uint8_t* out);

// Decode a few rows of a full block: value i is that of row rows[i] % 1024,
// plus the base. The 32-bit version stores `value_bytes` bytes per value, the
// other one 8.
void extract_rows32(uint32_t width, const uint8_t* packed, uint32_t base,
                    const uint32_t* rows, size_t n, uint32_t value_bytes,
                    uint8_t* out);
void extract_rows64(uint32_t width, const uint8_t* packed, uint64_t base,
                    const uint32_t* rows, size_t n, uint8_t* out);

// The position of value i in a full block: the byte of its word, and its bit in
// the word. The bits that do not fit in the word are 128 bytes later.
struct PackedPlace {
  uint32_t byte;
  uint32_t shift;
};
template <class T>
inline PackedPlace packed_place(uint32_t width, uint32_t i) {
  constexpr uint32_t kBits = sizeof(T) * 8;
  constexpr uint32_t kLanes = kPackValues / kBits;
  const uint32_t bit = i / kLanes * width;
  return {(bit / kBits * kLanes + i % kLanes) * uint32_t{sizeof(T)},
          bit % kBits};
}

// Value i of a full block, without its base.
template <class T>
inline T extract_packed(uint32_t width, const uint8_t* packed, uint32_t i) {
  constexpr uint32_t kBits = sizeof(T) * 8;
  const auto [byte, shift] = packed_place<T>(width, i);
  const uint8_t* p = packed + byte;
  if (width == 0) return 0;
  T v = static_cast<T>(load<T>(p) >> shift);
  if (shift + width > kBits) {
    v = static_cast<T>(v | load<T>(p + 128) << (kBits - shift));
  }
  return static_cast<T>(v & low_bits(width));
}

// Value i of a block of n < 1024 values, without its base.
inline uint64_t extract_tail(uint32_t width, const uint8_t* packed, uint32_t n,
                             uint32_t i) {
  if (width == 0) return 0;
  const uint64_t bit = uint64_t{i} * width;
  const uint64_t size = packed_bytes(n, width);
  const uint64_t at = bit / 8;
  const uint32_t shift = static_cast<uint32_t>(bit % 8);
  uint64_t low = 0;
  if (size - at >= 9) {
    low = load<uint64_t>(packed + at) >> shift;
    if (shift + width > 64) low |= uint64_t{packed[at + 8]} << (64 - shift);
    return low & low_bits(width);
  }
  uint8_t window[16] = {};
  std::memcpy(window, packed + at, static_cast<size_t>(size - at));
  low = load<uint64_t>(window) >> shift;
  if (shift != 0) low |= load<uint64_t>(window + 8) << (64 - shift);
  return low & low_bits(width);
}

}  // namespace nimble
