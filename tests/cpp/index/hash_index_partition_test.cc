#include "nimble/index/hash_index_partition.h"

#include <algorithm>
#include <map>
#include <random>

#include "testing/check.h"

namespace nimble::testing {
namespace {

using Truth = std::map<uint64_t, std::vector<uint64_t>>;  // fraction to rows

std::vector<uint8_t> build(const Truth& truth, uint64_t num_rows,
                           double load_factor = 0.7) {
  HashPartitionBuilder builder(num_rows, load_factor);
  for (const auto& [fraction, rows] : truth) {
    for (const uint64_t r : rows) REQUIRE(builder.add(fraction, r).is_ok());
  }
  auto bytes = builder.finish();
  REQUIRE(bytes.has_value());
  CHECK(builder.empty());
  return *bytes;
}

std::vector<uint64_t> find(const HashPartition& p, uint64_t fraction) {
  std::vector<uint64_t> rows;
  const Status s = p.find(p.place(fraction), &rows);
  if (!s) fail(__FILE__, __LINE__, std::string(s.message()));
  return rows;
}

// `keys` fractions; the numbers of rows cycle through `counts`.
Truth random_truth(size_t keys, const std::vector<size_t>& counts,
                   uint64_t num_rows, uint64_t seed) {
  std::mt19937_64 rng(seed);
  Truth truth;
  for (size_t i = 0; i < keys; ++i) {
    auto& rows = truth[rng()];
    for (size_t n = counts[i % counts.size()]; n > 0; --n)
      rows.push_back(rng() % num_rows);
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  }
  return truth;
}

void check_all_found(const Truth& truth, const HashPartition& p) {
  size_t extra = 0;
  for (const auto& [fraction, rows] : truth) {
    const auto found = find(p, fraction);
    CHECK(std::includes(found.begin(), found.end(), rows.begin(), rows.end()));
    CHECK(std::is_sorted(found.begin(), found.end()));
    extra += found.size() != rows.size();
  }
  // One in 2^14 / 5.6 is expected.
  CHECK(extra <= 2 + truth.size() / 1000);
}

TEST(HashPartition, FindsWhatWasAdded) {
  const std::vector<std::vector<size_t>> counts = {
      {1}, {1, 2}, {3, 4, 5, 6}, {1, 257, 5}, {1000, 1, 1}};
  uint64_t seed = 1;
  for (const auto& c : counts) {
    for (const size_t keys : {1, 2, 9, 1000}) {
      for (const uint64_t num_rows : {uint64_t{3000}, uint64_t{1} << 40}) {
        const Truth truth = random_truth(keys, c, num_rows, seed++);
        const auto bytes = build(truth, num_rows);
        const auto p = HashPartition::open(bytes, num_rows);
        REQUIRE(p.has_value());
        check_all_found(truth, *p);
      }
    }
  }
}

TEST(HashPartition, ExtremeFractionsAndLoadFactors) {
  Truth truth;
  truth[0] = {7};
  truth[1] = {0};
  truth[~uint64_t{0}] = {1, 2, 3, 4, 5, 9};
  truth[uint64_t{1} << 63] = {8};
  for (const double load : {1e-9, 0.1, 1.0}) {
    const auto bytes = build(truth, 10, load);
    const auto p = HashPartition::open(bytes, 10);
    REQUIRE(p.has_value());
    for (const auto& [fraction, rows] : truth) {
      const auto found = find(*p, fraction);
      CHECK(
          std::includes(found.begin(), found.end(), rows.begin(), rows.end()));
    }
  }
}

TEST(HashPartition, AbsentKeysAreRare) {
  const Truth truth = random_truth(32768, {1}, 10'000'000, 5);
  const auto bytes = build(truth, 10'000'000);
  const auto p = HashPartition::open(bytes, 10'000'000);
  REQUIRE(p.has_value());
  CHECK_EQ(p->num_entries(), 32768);
  // 24 bits per row, 14 per fingerprint, 16 per bucket end for 5.6 keys.
  CHECK(bytes.size() < 32768 * 5.2);
  std::mt19937_64 rng(6);
  size_t found = 0;
  for (int i = 0; i < 100000; ++i) found += find(*p, rng()).size();
  CHECK(found < 100);
}

TEST(HashPartition, ManyRowsOfOneKeyAreSmall) {
  Truth all, some;
  for (uint64_t r = 0; r < 100000; ++r) all[99].push_back(r);
  for (uint64_t r = 0; r < 1000; ++r) some[99].push_back(r * 10007);
  const auto bytes = build(all, 100000);
  CHECK(bytes.size() < 100000 / 256 * 5 + 64);
  const auto p = HashPartition::open(bytes, 100000);
  REQUIRE(p.has_value());
  CHECK(find(*p, 99) == all[99]);
  CHECK(build(some, 10'007'000).size() < 100);
}

// Regression: get() of a key with a million rows decoded all of them to use
// one.
TEST(HashPartition, TheFirstRowsOfALongListAreFewAndNoneIsMissing) {
  std::vector<uint64_t> all(100'000);
  for (size_t i = 0; i < all.size(); ++i) all[i] = 3 * i + 1;
  const Truth truth = {{uint64_t{7} << 60, all}, {uint64_t{9} << 60, {4}}};
  const auto bytes = build(truth, 1'000'000);
  const auto p = HashPartition::open(bytes, 1'000'000);
  REQUIRE(p.has_value());
  std::vector<uint64_t> rows;
  uint64_t known_below = UINT64_MAX;
  const auto place = p->place(uint64_t{7} << 60);
  REQUIRE(p->find_first(place, 8, &rows, &known_below).is_ok());
  CHECK(rows.size() >= 8 && rows.size() < 1000);
  CHECK(std::equal(rows.begin(), rows.end(), all.begin()));
  CHECK(known_below > rows.back() && known_below <= all[rows.size()]);
  // If all rows are requested, or there are few, none is missing.
  rows.clear();
  known_below = UINT64_MAX;
  REQUIRE(p->find_first(place, SIZE_MAX, &rows, &known_below).is_ok());
  CHECK(rows == all);
  CHECK_EQ(known_below, UINT64_MAX);
  REQUIRE(p->find_first(p->place(uint64_t{9} << 60), 1, &rows, &known_below)
              .is_ok());
  CHECK_EQ(known_below, UINT64_MAX);
}

TEST(HashPartition, RowsBeyondTheFileAreRefused) {
  HashPartitionBuilder builder(5, 0.7);
  CHECK(builder.add(1, 4).is_ok());
  CHECK(builder.add(2, 5).code() == StatusCode::kInvalidArgument);
}

TEST(HashPartition, HostileBytesGiveErrorsOrRowsOfTheFile) {
  const Truth truth = random_truth(60, {1, 2, 300}, 5000, 9);
  const auto bytes = build(truth, 5000);
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    const auto p = HashPartition::open(ByteSpan(bytes).first(cut), 5000);
    if (!p) continue;
    for (const auto& [fraction, rows] : truth) {
      std::vector<uint64_t> found;
      (void)p->find(p->place(fraction), &found);
    }
  }
  std::mt19937_64 rng(10);
  for (int round = 0; round < 20000; ++round) {
    auto bad = bytes;
    const size_t at = round < 2000 ? rng() % 100 : rng() % bad.size();
    bad[at] = static_cast<uint8_t>(rng());
    // An exact allocation, so that sanitizers detect reads past the end.
    const std::vector<uint8_t> exact(bad.begin(), bad.end());
    const auto p = HashPartition::open(exact, 5000);
    if (!p) continue;
    std::vector<uint64_t> found;
    auto it = truth.begin();
    std::advance(it, rng() % truth.size());
    if (p->find(p->place(it->first), &found).is_ok()) {
      for (const uint64_t r : found) CHECK(r < 5000);
    }
  }
}

}  // namespace
}  // namespace nimble::testing
