#include "nimble/base/bit_packing.h"

#include <vector>

#include "nimble/base/bitmap.h"
#include "nimble/base/unpack_ranges.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

uint64_t random_bits(uint64_t i) {
  i = (i ^ (i >> 29)) * 0xbf58476d1ce4e5b9 + 0x9e3779b97f4a7c15;
  i = (i ^ (i >> 31)) * 0x94d049bb133111eb;
  return i ^ (i >> 27);
}

template <class T, class Pack, class Unpack>
void check_blocks(uint32_t width, T base, Pack pack, Unpack unpack) {
  std::vector<T> values(kPackValues);
  for (uint32_t i = 0; i < kPackValues; ++i) {
    values[i] = static_cast<T>((random_bits(i) & low_bits(width)) + base);
  }
  // One byte off any alignment. The byte after the block must not change.
  std::vector<uint8_t> packed(1 + 128 * width + 1, 0xee);
  pack(width, reinterpret_cast<const uint8_t*>(values.data()), base,
       packed.data() + 1);
  CHECK_EQ(packed.back(), 0xee);
  std::vector<uint8_t> out(1 + kPackValues * sizeof(T) + 1, 0xee);
  unpack(width, packed.data() + 1, base, out.data() + 1);
  CHECK_EQ(out.back(), 0xee);
  CHECK(std::memcmp(out.data() + 1, values.data(), kPackValues * sizeof(T)) ==
        0);
  for (uint32_t i = 0; i < kPackValues; ++i) {
    CHECK_EQ(extract_packed<T>(width, packed.data() + 1, i),
             static_cast<T>(values[i] - base));
  }
}

// Rows of a block, in any order and more than once.
std::vector<uint32_t> some_rows() {
  std::vector<uint32_t> rows{0, 0, 1, kPackValues - 1, 5 * kPackValues + 17};
  for (uint32_t i = 0; i < 200; ++i) {
    rows.push_back(static_cast<uint32_t>(random_bits(i)));
  }
  return rows;
}

TEST(BitPacking, FewRowsOfEveryWidth) {
  const std::vector<uint32_t> rows = some_rows();
  for (uint32_t w = 0; w <= 64; ++w) {
    std::vector<uint64_t> words(kPackValues);
    for (uint32_t i = 0; i < kPackValues; ++i) {
      words[i] = (random_bits(i) & low_bits(w)) + 99;
    }
    std::vector<uint8_t> packed(128 * w);  // exact: for sanitizers
    pack64(w, reinterpret_cast<const uint8_t*>(words.data()), 99,
           packed.data());
    std::vector<uint64_t> out(rows.size());
    extract_rows64(w, packed.data(), 99, rows.data(), rows.size(),
                   reinterpret_cast<uint8_t*>(out.data()));
    for (size_t i = 0; i < rows.size(); ++i) {
      CHECK_EQ(out[i], words[rows[i] % kPackValues]);
    }
  }
}

template <class T>
void check_few_rows32(uint32_t width) {
  const std::vector<uint32_t> rows = some_rows();
  std::vector<uint32_t> words(kPackValues);
  for (uint32_t i = 0; i < kPackValues; ++i) {
    words[i] = static_cast<uint32_t>((random_bits(i) & low_bits(width)) + 99);
  }
  std::vector<uint8_t> packed(128 * width);
  pack32(width, reinterpret_cast<const uint8_t*>(words.data()), 99,
         packed.data());
  std::vector<T> out(rows.size() + 1, T{7});
  extract_rows32(width, packed.data(), 99, rows.data(), rows.size(), sizeof(T),
                 reinterpret_cast<uint8_t*>(out.data()));
  for (size_t i = 0; i < rows.size(); ++i) {
    CHECK_EQ(out[i], static_cast<T>(words[rows[i] % kPackValues]));
  }
  CHECK_EQ(out.back(), T{7});
}

TEST(BitPacking, FewRowsOfSmallValues) {
  for (uint32_t w = 0; w <= 32; ++w) {
    check_few_rows32<uint8_t>(w);
    check_few_rows32<uint16_t>(w);
    check_few_rows32<uint32_t>(w);
  }
}

TEST(BitPacking, BlocksOfEveryWidth) {
  for (uint32_t w = 0; w <= 32; ++w)
    check_blocks<uint32_t>(w, 0xfffffff0u, pack32, unpack32);
  for (uint32_t w = 0; w <= 64; ++w)
    check_blocks<uint64_t>(w, 1u << 20, pack64, unpack64);
}

TEST(BitPacking, TailsOfEveryWidth) {
  for (uint32_t w = 0; w <= 64; ++w) {
    for (const uint32_t n : {0u, 1u, 2u, 7u, 63u, 100u, 1023u}) {
      std::vector<uint64_t> values(n);
      for (uint32_t i = 0; i < n; ++i)
        values[i] = (random_bits(i) & low_bits(w)) + 77;
      std::vector<uint8_t> packed(packed_bytes(n, w));  // exact: for sanitizers
      pack_tail64(w, reinterpret_cast<const uint8_t*>(values.data()), n, 77,
                  packed.data());
      std::vector<uint64_t> out(n);
      unpack_tail64(w, packed.data(), n, 77,
                    reinterpret_cast<uint8_t*>(out.data()));
      CHECK(out == values);
      for (uint32_t i = 0; i < n; ++i)
        CHECK_EQ(extract_tail(w, packed.data(), n, i), values[i] - 77);
      if (w > 32) continue;
      std::vector<uint32_t> words(values.begin(), values.end());
      std::vector<uint8_t> packed32(packed.size());
      pack_tail32(w, reinterpret_cast<const uint8_t*>(words.data()), n, 77,
                  packed32.data());
      CHECK(packed32 == packed);
      std::vector<uint32_t> out32(n);
      unpack_tail32(w, packed.data(), n, 77,
                    reinterpret_cast<uint8_t*>(out32.data()));
      CHECK(out32 == words);
    }
  }
}

// The layout is part of the format: value i is row i / 16 of lane i % 16.
// Ranges that begin and end at every lane, and extend past both ends of a
// block.
template <class T, class Pack, class Unpack>
void check_ranges(uint32_t width, Pack pack, Unpack unpack) {
  constexpr T kBase = 99;
  constexpr uint64_t kFirst = 3 * kPackValues;
  std::vector<T> values(kPackValues);
  for (uint32_t i = 0; i < kPackValues; ++i) {
    values[i] = static_cast<T>((random_bits(i) & low_bits(width)) + kBase);
  }
  std::vector<uint8_t> packed(128 * width);  // exact: for sanitizers
  pack(width, reinterpret_cast<const uint8_t*>(values.data()), kBase,
       packed.data());
  for (uint64_t step = 1; step < 1300; step += 1 + step / 3) {
    std::vector<RowRange> ranges;
    std::vector<T> wanted;
    for (uint64_t row = kFirst - 5 * (step % 2); row < kFirst + kPackValues;) {
      const uint64_t end = row + 1 + random_bits(row * step) % step;
      if (end > kFirst) ranges.push_back({row, end});
      for (; row < end; ++row) {
        if (row < kFirst || row >= kFirst + kPackValues) continue;
        wanted.push_back(values[row - kFirst]);
      }
      row += 1 + random_bits(row) % 3;
    }
    const uint64_t size = wanted.size() * sizeof(T);
    std::vector<uint8_t> out(1 + size + kUnpackOvershoot - 1);
    CHECK(unpack(width, packed.data(), kFirst, ranges, kBase, &out[1]) ==
          out.data() + 1 + size);
    CHECK(std::memcmp(&out[1], wanted.data(), size) == 0);
  }
}

TEST(BitPacking, RangesOfEveryWidth) {
  for (uint32_t w = 0; w <= 64; ++w) {
    check_ranges<uint64_t>(w, pack64, unpack_ranges64);
    if (w <= 32) check_ranges<uint32_t>(w, pack32, unpack_ranges32);
  }
}

TEST(BitPacking, LayoutIsPinned) {
  std::vector<uint64_t> values(kPackValues);
  values[0] = 1, values[1] = 2, values[16] = 3, values[16 * 63 + 15] = 7;
  std::vector<uint64_t> words(16 * 3);
  pack64(3, reinterpret_cast<const uint8_t*>(values.data()), 0,
         reinterpret_cast<uint8_t*>(words.data()));
  CHECK_EQ(words[0], 1u | 3u << 3);
  CHECK_EQ(words[1], 2u);
  CHECK_EQ(words[16 * 2 + 15], uint64_t{7} << 61);
}

TEST(Bitmap, CopyFillAndCount) {
  std::vector<uint8_t> source(40);
  for (size_t i = 0; i < source.size(); ++i)
    source[i] = static_cast<uint8_t>(random_bits(i));
  for (uint64_t from = 0; from < 9; ++from) {
    for (uint64_t to = 0; to < 9; ++to) {
      for (const uint64_t n : {0u, 1u, 5u, 8u, 63u, 64u, 65u, 150u, 300u}) {
        std::vector<uint8_t> target(40, 0x5a);
        const std::vector<uint8_t> before = target;
        copy_bits(source.data(), from, n, target.data(), to);
        uint64_t ones = 0;
        for (uint64_t i = 0; i < 320; ++i) {
          const bool inside = i >= to && i < to + n;
          const bool want = inside ? get_bit(source.data(), from + i - to)
                                   : get_bit(before.data(), i);
          CHECK_EQ(get_bit(target.data(), i), want);
          ones += inside && want;
        }
        CHECK_EQ(count_bits(target.data(), to, n), ones);
        fill_bits(target.data(), to, n, from % 2 == 0);
        CHECK_EQ(count_bits(target.data(), to, n), from % 2 == 0 ? n : 0);
      }
    }
  }
}

}  // namespace
}  // namespace nimble::testing
