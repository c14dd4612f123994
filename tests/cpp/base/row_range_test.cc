// Compares set operations on ranges with bit sets.
#include "nimble/base/row_range.h"

#include <bitset>
#include <random>

#include "testing/check.h"

namespace nimble {
namespace {

constexpr uint64_t kRows = 40;
using Set = std::bitset<kRows>;

Set set_of(const std::vector<RowRange>& ranges) {
  Set out;
  for (const RowRange& r : ranges) {
    for (uint64_t i = r.begin; i < r.end; ++i) out.set(i);
  }
  return out;
}

std::vector<RowRange> random_ranges(std::mt19937_64* rng, size_t max_count) {
  std::vector<RowRange> out((*rng)() % (max_count + 1));
  for (RowRange& r : out) r = {(*rng)() % kRows, (*rng)() % kRows};
  return out;  // unordered, overlapping, some empty or reversed
}

void check_canonical(const std::vector<RowRange>& ranges) {
  for (size_t i = 0; i < ranges.size(); ++i) {
    CHECK(!ranges[i].empty());
    // Adjacent ranges must have been joined.
    if (i > 0) CHECK(ranges[i - 1].end < ranges[i].begin);
  }
}

TEST(RowRange, MergeIsTheUnion) {
  std::mt19937_64 rng(1);
  for (int round = 0; round < 3000; ++round) {
    const auto ranges = random_ranges(&rng, 8);
    const auto merged = merge_ranges(ranges);
    check_canonical(merged);
    CHECK(set_of(merged) == set_of(ranges));
    CHECK_EQ(count_rows(merged), set_of(ranges).count());
  }
}

TEST(RowRange, IntersectionIsTheIntersection) {
  std::mt19937_64 rng(2);
  for (int round = 0; round < 3000; ++round) {
    const auto a = merge_ranges(random_ranges(&rng, 8));
    const auto b = merge_ranges(random_ranges(&rng, 8));
    const auto both = intersect_ranges(a, b);
    check_canonical(both);
    CHECK(set_of(both) == (set_of(a) & set_of(b)));
    CHECK(intersect_ranges(b, a) == both);
    CHECK(intersect_ranges(a, a) == a);
  }
}

TEST(RowRange, EmptyAndLargest) {
  CHECK(merge_ranges({}).empty());
  CHECK(merge_ranges({{5, 5}, {7, 3}}).empty());
  CHECK_EQ((RowRange{7, 3}.size()), 0);
  const std::vector<RowRange> all{{0, UINT64_MAX}};
  CHECK(merge_ranges({{3, UINT64_MAX}, {0, 3}}) == all);
  CHECK(intersect_ranges(all, {{1, 2}}) == std::vector<RowRange>({{1, 2}}));
  CHECK(intersect_ranges(all, {}).empty());
}

}  // namespace
}  // namespace nimble
