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

// Few different bytes at each position are packed into few bits.
TEST(KeySort, TextOfFewLetters) {
  std::mt19937_64 rng(9);
  const auto digits = [&rng](size_t n, std::string_view letters) {
    std::string s;
    for (size_t i = 0; i < n; ++i) s += letters[rng() % letters.size()];
    return s;
  };
  const std::string_view hex = "0123456789abcdef";
  for (const size_t n : {256, 5000}) {
    Keys uuids, equal_heads, bits, lengths, late;
    for (size_t i = 0; i < n; ++i) {
      uuids.push_back("k" + digits(8, hex) + "-" + digits(4, hex) + "-" +
                      digits(4, hex) + "-" + digits(16, hex) + big_endian(i));
      equal_heads.push_back(digits(1, "ab") + std::string(30, 'x') +
                            digits(2, hex));
      bits.push_back(digits(64, "01"));
      // A key that ends is below one that continues with a zero.
      lengths.push_back(digits(rng() % 24, std::string_view("\0a", 2)));
      // Bytes that the sample of keys does not have.
      late.push_back(i < 2000 ? digits(12, "ab")
                              : digits(12, std::string_view("\0\xff"
                                                            "am",
                                                            4)));
    }
    check_sort<uint32_t>("uuids", uuids, false);
    check_sort<uint64_t>("uuids", uuids, true);
    check_sort<uint64_t>("equal heads", equal_heads, false);
    check_sort<uint64_t>("bits", bits, true);
    check_sort<uint64_t>("lengths", lengths, false);
    check_sort<uint64_t>("late", late, false);
  }
}

TEST(KeyBuffer, AppendRowsInAnyOrder) {
  std::mt19937_64 rng(10);
  for (NamedKeys& set : nasty_key_sets(700, 3)) {
    set.keys.push_back(std::string(1000, 'k'));  // a long key
    const size_t width = set.keys[0].size();
    for (const bool fixed : {false, true}) {
      if (fixed) set.keys.pop_back();
      const bool same_width =
          std::all_of(set.keys.begin(), set.keys.end(),
                      [width](const auto& k) { return k.size() == width; });
      if (fixed && (width == 0 || !same_width)) continue;
      const KeyBuffer from = to_buffer(set.keys, fixed);
      KeyBuffer to = to_buffer({set.keys[0]}, fixed);
      Keys want = {set.keys[0]};
      for (const size_t count : {0, 1, 50, 3000}) {
        std::vector<uint64_t> rows;
        for (size_t i = 0; i < count; ++i) rows.push_back(rng() % from.size());
        to.append_rows(from, rows.data(), count);
        for (const uint64_t row : rows) want.push_back(set.keys[row]);
      }
      REQUIRE(to.size() == want.size());
      for (size_t i = 0; i < want.size(); ++i) {
        if (as_string(to.key(i)) != want[i]) {
          fail(set.name.c_str(), static_cast<int>(i), "another key");
        }
      }
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
