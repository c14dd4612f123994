#include "nimble/base/bitmap.h"

#include <algorithm>

#include "nimble/base/compiler.h"

namespace nimble {
namespace {

// Loads up to 56 bits from bit `from`, reading only the bytes that contain
// them.
uint64_t load_bits(const uint8_t* bits, uint64_t from, uint64_t n) {
  const uint64_t shift = from % 8;
  uint64_t word = 0;
  std::memcpy(&word, bits + from / 8, static_cast<size_t>((shift + n + 7) / 8));
  return (word >> shift) & ((uint64_t{1} << n) - 1);
}

}  // namespace

void copy_bits(const uint8_t* source, uint64_t from, uint64_t n,
               uint8_t* target, uint64_t to) {
  if (n == 0) return;
  // Copies single bits up to a byte boundary of the target, then whole words,
  // then the remaining bits.
  for (; n > 0 && to % 8 != 0; --n) {
    put_bit(target, to++, get_bit(source, from++));
  }
  if (from % 8 == 0) {
    std::memcpy(target + to / 8, source + from / 8, static_cast<size_t>(n / 8));
    from += n / 8 * 8;
    to += n / 8 * 8;
    n %= 8;
  }
  for (; n >= 72; n -= 64, from += 64, to += 64) {
    const uint64_t shift = from % 8;  // not 0: memcpy() handles that
    const uint8_t* p = source + from / 8;
    store(target + to / 8,
          load<uint64_t>(p) >> shift | uint64_t{p[8]} << (64 - shift));
  }
  for (; n >= 8; n -= 8, from += 8, to += 8) {
    target[to / 8] = static_cast<uint8_t>(load_bits(source, from, 8));
  }
  for (; n > 0; --n) put_bit(target, to++, get_bit(source, from++));
}

void fill_bits(uint8_t* bits, uint64_t begin, uint64_t n, bool value) {
  if (n == 0) return;
  const uint64_t end = begin + n;
  uint8_t* const first = bits + begin / 8;
  uint8_t* const last = bits + (end - 1) / 8;
  const auto fill = [&](uint8_t* byte, uint32_t mask) {
    *byte = static_cast<uint8_t>(value ? *byte | mask : *byte & ~mask);
  };
  const uint32_t from = 0xffu << (begin % 8);
  const uint32_t to = 0xffu >> (7 - (end - 1) % 8);
  if (first == last) return fill(first, from & to);
  fill(first, from);
  std::memset(first + 1, value ? 0xff : 0,
              static_cast<size_t>(last - first - 1));
  fill(last, to);
}

NIMBLE_CLONES uint64_t count_bits(const uint8_t* bits, uint64_t begin,
                                  uint64_t n) {
  const auto ones_in = [](uint64_t word) {
    return static_cast<uint64_t>(std::popcount(word));
  };
  uint64_t ones = 0;
  if (begin % 8 != 0) {
    const uint64_t few = std::min(n, 8 - begin % 8);
    ones += ones_in(load_bits(bits, begin, few));
    begin += few;
    n -= few;
  }
  for (; n >= 64; n -= 64, begin += 64) {
    ones += ones_in(load<uint64_t>(bits + begin / 8));
  }
  for (; n > 0;) {
    const uint64_t few = std::min<uint64_t>(n, 56);
    ones += ones_in(load_bits(bits, begin, few));
    begin += few;
    n -= few;
  }
  return ones;
}

}  // namespace nimble
