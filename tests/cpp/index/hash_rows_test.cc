#include "nimble/index/hash_rows.h"

#include <algorithm>
#include <random>

#include "io/temp_dir.h"
#include "nimble/io/external_sorter.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

using Pairs = std::vector<std::pair<uint64_t, uint64_t>>;

// Sorts hashes of rows 0, 1, ... with an ExternalSorter.
Pairs sorted_by(uint64_t memory, const std::vector<uint64_t>& hashes,
                const TempDir& dir) {
  ExternalSorter<HashRows> sorter(memory, dir.path(""), HashRows());
  for (size_t i = 0; i < hashes.size(); ++i) {
    sorter.batch().push_back({hashes[i], i});
    if (i % 4096 == 0) REQUIRE(sorter.added().is_ok());
  }
  Pairs out;
  const Status s = sorter.finish([&](const HashRows& sorted) {
    for (const HashRow& p : sorted.pairs()) out.emplace_back(p.hash, p.row);
    return Status::ok();
  });
  CHECK(s.is_ok());
  return out;
}

Pairs expected_of(const std::vector<uint64_t>& hashes) {
  Pairs out;
  for (size_t i = 0; i < hashes.size(); ++i) out.emplace_back(hashes[i], i);
  std::sort(out.begin(), out.end());
  return out;
}

// Kinds of hashes that a column may have: all distinct, few values, one value,
// one value among many, close values, extreme values.
std::vector<std::vector<uint64_t>> columns(size_t n) {
  std::mt19937_64 rng(n);
  std::vector<std::vector<uint64_t>> out(6, std::vector<uint64_t>(n));
  for (size_t i = 0; i < n; ++i) {
    const uint64_t r = rng();
    out[0][i] = r;
    out[1][i] = (r % 7) * 0x9e3779b97f4a7c15u;
    out[2][i] = 42;
    out[3][i] = r % 3 == 0 ? r : 0x8000000000000001u;
    out[4][i] = 1000 + r % 5;
    out[5][i] = r % 2 == 0 ? 0 : ~uint64_t{0};
  }
  return out;
}

TEST(HashRows, EqualsStdSort) {
  const TempDir dir;
  for (const size_t n : {0, 1, 2, 24, 25, 1000, 100000}) {
    for (const auto& hashes : columns(n)) {
      CHECK(sorted_by(uint64_t{64} << 20, hashes, dir) == expected_of(hashes));
    }
  }
}

TEST(HashRows, SpilledRunsMergeToTheSame) {
  const TempDir dir;
  for (const size_t n : {4096, 4097, 50000}) {
    for (const auto& hashes : columns(n)) {
      for (const uint64_t memory : {uint64_t{0}, uint64_t{1} << 17}) {
        CHECK(sorted_by(memory, hashes, dir) == expected_of(hashes));
      }
    }
  }
  CHECK(dir.names().empty());
}

}  // namespace
}  // namespace nimble::testing
