// Compares a set of rows with std::set.
#include "nimble/base/row_bitmap.h"

#include <random>
#include <set>

#include "testing/check.h"

namespace nimble {
namespace {

void check_same(const std::set<uint64_t>& truth, const RowBitmap& rows,
                std::mt19937_64* rng, uint64_t end) {
  CHECK_EQ(rows.size(), truth.size());
  CHECK_EQ(rows.empty(), truth.empty());
  if (!truth.empty()) CHECK_EQ(rows.last(), *truth.rbegin());
  std::vector<uint64_t> all;
  rows.append_rows(&all);
  CHECK(std::equal(all.begin(), all.end(), truth.begin(), truth.end()));
  for (const uint64_t row : truth) {
    CHECK(rows.contains(row));
    CHECK_EQ(rows.contains(row + 1), truth.count(row + 1) > 0);
  }
  for (int i = 0; i < 50; ++i) {
    const uint64_t a = (*rng)() % end, b = (*rng)() % end;
    std::vector<RowRange> found;
    rows.append_absent({a, b}, &found);
    uint64_t at = a, absent = 0;
    for (const RowRange& r : found) {
      REQUIRE(!r.empty());
      REQUIRE(r.begin >= at);
      REQUIRE(r.end <= b);
      // Rows between two parts are in the set.
      CHECK_EQ(static_cast<uint64_t>(std::distance(truth.lower_bound(at),
                                                   truth.lower_bound(r.begin))),
               r.begin - at);
      CHECK(truth.lower_bound(r.begin) == truth.lower_bound(r.end));
      absent += r.size();
      at = r.end;
    }
    const auto gone =
        a >= b ? 0 : std::distance(truth.lower_bound(a), truth.lower_bound(b));
    CHECK_EQ(absent + static_cast<uint64_t>(gone), a >= b ? 0 : b - a);
  }
}

TEST(RowBitmap, IsTheSet) {
  std::mt19937_64 rng(1);
  struct Case {
    size_t rows;
    uint64_t end;
  };
  // Lists, bitmaps, both next to each other, and distant containers.
  for (const Case c :
       {Case{0, 10}, Case{1, 1}, Case{100, 1000}, Case{5000, 65536},
        Case{65536, 70000}, Case{9000, 200000}, Case{300, uint64_t{1} << 45}}) {
    for (int round = 0; round < 5; ++round) {
      std::vector<uint64_t> rows(c.rows);
      for (uint64_t& row : rows) row = rng() % c.end;
      const RowBitmap bitmap(rows);
      check_same({rows.begin(), rows.end()}, bitmap, &rng, c.end + 10);
    }
  }
}

TEST(RowBitmap, BothSetsTogether) {
  std::mt19937_64 rng(4);
  // Lists that remain lists or become bitmaps, bitmaps, and containers of one
  // set only.
  for (const uint64_t end : {1000u, 20000u, 70000u, 1u << 20}) {
    for (const size_t n : {0u, 1u, 300u, 3000u, 4096u, 9000u, 40000u}) {
      std::vector<uint64_t> some(n), more(rng() % 6000);
      for (uint64_t& row : some) row = rng() % end;
      for (uint64_t& row : more) row = rng() % (2 * end);
      const RowBitmap one(some), other(more);
      std::set<uint64_t> truth(some.begin(), some.end());
      truth.insert(more.begin(), more.end());
      check_same(truth, one.with(other), &rng, 2 * end);
      check_same(truth, other.with(one), &rng, 2 * end);
    }
  }
}

TEST(RowBitmap, HoldsTheEndsOfContainers) {
  const std::vector<uint64_t> rows = {0,          65535, 65536, 131071,  131072,
                                      UINT64_MAX, 65536, 0,     1u << 31};
  std::mt19937_64 rng(2);
  check_same({rows.begin(), rows.end()}, RowBitmap(rows), &rng, 200000);
}

TEST(RowBitmap, ListsAndBitmapsMeetAtTheirLimit) {
  std::mt19937_64 rng(3);
  for (const uint64_t n : {4095u, 4096u, 4097u}) {
    std::vector<uint64_t> rows;
    for (uint64_t i = 0; i < n; ++i) rows.push_back(3 * i);
    check_same({rows.begin(), rows.end()}, RowBitmap(rows), &rng, 3 * n + 5);
  }
}

std::vector<uint64_t> up_to(uint64_t end, uint64_t step) {
  std::vector<uint64_t> rows;
  for (uint64_t row = 0; row < end; row += step) rows.push_back(row);
  return rows;
}

TEST(RowBitmap, WritesRoaringBitmapsAsJavaDoes) {
  std::vector<uint64_t> rows = up_to(20, 1);
  rows.erase(rows.begin(), rows.begin() + 10);
  rows.push_back(99);
  // One container as runs, as in a deletion vector that Java's library wrote.
  const std::vector<uint8_t> runs = {1, 0,    0,    0, 0, 0,  0, 0, 0,  0, 0,
                                     0, 0x3b, 0x30, 0, 0, 1,  0, 0, 10, 0, 2,
                                     0, 10,   0,    9, 0, 99, 0, 0, 0};
  CHECK(RowBitmap(rows).roaring() == runs);
  CHECK(RowBitmap().roaring() == std::vector<uint8_t>(8));
  // An empty bitmap precedes that of a row above 2^32.
  const std::vector<uint64_t> above = {uint64_t{1} << 32};
  CHECK_EQ(RowBitmap(above).roaring().size(), 8u + 12 + 4 + 18);
  // A list, a bitmap, and one container of runs.
  CHECK_EQ(RowBitmap(up_to(8192, 2)).roaring().size(), 8u + 4 + 16 + 8192);
  CHECK_EQ(RowBitmap(up_to(20000, 2)).roaring().size(), 8u + 4 + 16 + 8192);
  CHECK_EQ(RowBitmap(up_to(65536, 1)).roaring().size(), 8u + 4 + 9 + 6);
  // Offsets are left out if there are few containers, of which one has runs.
  CHECK_EQ(RowBitmap(up_to(3 << 16, 1)).roaring().size(), 8u + 4 + 17 + 3 * 6);
  CHECK_EQ(RowBitmap(up_to(4 << 16, 1)).roaring().size(),
           8u + 4 + 5 + 16 + 16 + 4 * 6);
}

}  // namespace
}  // namespace nimble
