#include "nimble/index/key_rows.h"

#include <algorithm>
#include <random>

#include "io/temp_dir.h"
#include "nimble/io/external_sorter.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

using Entries = std::vector<std::pair<std::string, uint64_t>>;

KeyBuffer buffer_of(const std::vector<std::string>& keys, size_t fixed_width) {
  KeyBuffer out(fixed_width);
  for (const auto& k : keys) out.push_back(as_bytes(k));
  return out;
}

// Sorts keys of rows 0, 1, ... that are added in pieces.
Entries sorted_by(uint64_t memory, const std::vector<std::string>& keys,
                  size_t fixed_width, const TempDir& dir) {
  ExternalSorter<KeyRows> sorter(memory, dir.path(""), KeyRows());
  const KeyBuffer buffer = buffer_of(keys, fixed_width);
  for (size_t at = 0; at < keys.size(); at += 777) {
    sorter.batch().add(buffer, at, std::min(keys.size(), at + 777), at);
    REQUIRE(sorter.added().is_ok());
  }
  Entries out;
  const Status s = sorter.finish([&](const KeyRows& sorted) {
    for (size_t i = 0; i < sorted.size(); ++i) {
      out.emplace_back(as_string(sorted.key(i)), sorted.row(i));
    }
    return Status::ok();
  });
  CHECK(s.is_ok());
  return out;
}

Entries expected_of(const std::vector<std::string>& keys) {
  Entries out;
  for (size_t i = 0; i < keys.size(); ++i) out.emplace_back(keys[i], i);
  std::sort(out.begin(), out.end());
  return out;
}

// Keys of equal width: all distinct, few values, one value. No key is a prefix
// of another, like encoded keys.
std::vector<std::vector<std::string>> columns(size_t n, bool fixed) {
  std::mt19937_64 rng(n);
  std::vector<std::vector<std::string>> out(3, std::vector<std::string>(n));
  for (size_t i = 0; i < n; ++i) {
    const uint64_t r = rng();
    const auto text = [fixed](uint64_t v) {
      std::string t = std::to_string(v);
      return fixed ? std::string(20 - t.size(), '0') + t : t + '\0';
    };
    out[0][i] = text(r);
    out[1][i] = text(r % 7);
    out[2][i] = text(42);
  }
  return out;
}

TEST(KeyRows, EqualsStdSortSpilledOrNot) {
  const TempDir dir;
  for (const bool fixed : {true, false}) {
    for (const size_t n : {0, 1, 2, 1000, 50000}) {
      for (const auto& keys : columns(n, fixed)) {
        const Entries want = expected_of(keys);
        for (const uint64_t memory :
             {uint64_t{0}, uint64_t{1} << 20, uint64_t{64} << 20}) {
          CHECK(sorted_by(memory, keys, fixed ? 20 : 0, dir) == want);
        }
      }
    }
  }
  CHECK(dir.names().empty());
}

}  // namespace
}  // namespace nimble::testing
