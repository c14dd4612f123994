// Compares bitmaps with a bit-by-bit loop, at every offset. Buffers are exactly
// as large as their bits, so that sanitizers detect a byte too many.
#include "nimble/base/bitmap.h"

#include <memory>
#include <random>
#include <vector>

#include "testing/check.h"

namespace nimble {
namespace {

struct Bits {
  explicit Bits(uint64_t n) : size(n), bytes(new uint8_t[(n + 7) / 8]) {}
  Bits(uint64_t n, std::mt19937_64* rng) : Bits(n) {
    for (uint64_t i = 0; i < (n + 7) / 8; ++i) {
      bytes[i] = static_cast<uint8_t>((*rng)());
    }
  }
  Bits(const Bits& o) : Bits(o.size) {
    std::memcpy(bytes.get(), o.bytes.get(), (size + 7) / 8);
  }
  bool operator[](uint64_t i) const { return get_bit(bytes.get(), i); }
  uint64_t size;
  std::unique_ptr<uint8_t[]> bytes;
};

// Lengths around the steps that kernels take.
const uint64_t kLengths[] = {0,  1,  2,  7,  8,  9,  15,  16,  17, 31,
                             63, 64, 65, 71, 72, 73, 127, 128, 200};

TEST(Bitmap, CopyAtAllOffsets) {
  std::mt19937_64 rng(3);
  for (uint64_t from = 0; from < 18; ++from) {
    for (uint64_t to = 0; to < 18; ++to) {
      for (const uint64_t n : kLengths) {
        const Bits source(from + n, &rng);
        const Bits before(to + n + 5, &rng);
        const Bits after(before);
        copy_bits(source.bytes.get(), from, n, after.bytes.get(), to);
        uint64_t wrong = 0;
        for (uint64_t i = 0; i < after.size; ++i) {
          const bool inside = i >= to && i < to + n;
          wrong += after[i] != (inside ? source[from + i - to] : before[i]);
        }
        CHECK_EQ(wrong, 0);
      }
    }
  }
}

TEST(Bitmap, FillAndCountAtAllOffsets) {
  std::mt19937_64 rng(4);
  for (uint64_t begin = 0; begin < 70; ++begin) {
    for (const uint64_t n : kLengths) {
      const Bits before(begin + n + (rng() % 9), &rng);
      uint64_t ones = 0, wrong = 0;
      for (uint64_t i = begin; i < begin + n; ++i) ones += before[i];
      CHECK_EQ(count_bits(before.bytes.get(), begin, n), ones);
      for (const bool value : {false, true}) {
        const Bits after(before);
        fill_bits(after.bytes.get(), begin, n, value);
        for (uint64_t i = 0; i < after.size; ++i) {
          const bool inside = i >= begin && i < begin + n;
          wrong += after[i] != (inside ? value : before[i]);
        }
      }
      CHECK_EQ(wrong, 0);
    }
  }
}

}  // namespace
}  // namespace nimble
