#include "nimble/key/key_sort.h"

#include <algorithm>
#include <numeric>

#include "index/key_sets.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

template <class Row>
void check_sort(const std::string& name, const Keys& keys, bool fixed) {
  const KeyBuffer buffer = to_buffer(keys, fixed);
  std::vector<Row> order, want(keys.size());
  sort_keys(buffer, &order);
  std::iota(want.begin(), want.end(), Row{0});
  std::stable_sort(want.begin(), want.end(),
                   [&keys](Row a, Row b) { return keys[a] < keys[b]; });
  if (order != want) fail(name.c_str(), fixed, "wrong order");
}

TEST(KeySort, LikeStdStableSort) {
  std::mt19937_64 rng(8);
  for (const size_t n : {1, 2, 50, 3000}) {
    for (NamedKeys& set : nasty_key_sets(n, n)) {
      check_sort<uint32_t>(set.name, set.keys, false);
      std::shuffle(set.keys.begin(), set.keys.end(), rng);
      check_sort<uint32_t>(set.name, set.keys, false);
      check_sort<uint64_t>(set.name, set.keys, false);
      const size_t size = set.keys[0].size();
      const bool fixed =
          size > 0 &&
          std::all_of(set.keys.begin(), set.keys.end(),
                      [size](const auto& k) { return k.size() == size; });
      if (!fixed) continue;
      check_sort<uint32_t>(set.name, set.keys, true);
      check_sort<uint64_t>(set.name, set.keys, true);
    }
  }
}

TEST(KeySort, NoKeys) {
  std::vector<uint32_t> order = {1, 2};
  sort_keys(KeyBuffer(), &order);
  CHECK(order.empty());
}

TEST(KeySort, CompareAcrossBuffers) {
  const KeyBuffer a = to_buffer({"ab", "b"}), b = to_buffer({"ab", "abc"});
  CHECK_EQ(compare_keys(a, 0, b, 0), 0);
  CHECK(compare_keys(a, 0, b, 1) < 0);
  CHECK(compare_keys(a, 1, b, 1) > 0);
}

}  // namespace
}  // namespace nimble::testing
