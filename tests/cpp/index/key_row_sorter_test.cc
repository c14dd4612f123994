#include "nimble/index/key_row_sorter.h"

#include <algorithm>
#include <random>

#include "io/temp_dir.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

using Entries = std::vector<std::string>;

std::string entry_of(const std::string& key, uint64_t row, uint32_t width) {
  std::string out = key;
  for (uint32_t i = width; i-- > 0;) {
    out.push_back(static_cast<char>(row >> (8 * i)));
  }
  return out;
}

KeyBuffer buffer_of(const std::vector<std::string>& keys, size_t fixed_width) {
  KeyBuffer out(fixed_width);
  for (const auto& k : keys) out.push_back(as_bytes(k));
  return out;
}

// What a sorter gives for keys of rows 0, 1, ... that come in pieces.
Entries sorted_by(uint64_t memory, const std::vector<std::string>& keys,
                  size_t fixed_width, uint32_t row_width, const TempDir& dir) {
  KeyRowSorter sorter(memory, dir.path(""));
  const KeyBuffer buffer = buffer_of(keys, fixed_width);
  for (size_t at = 0; at < keys.size(); at += 777) {
    REQUIRE(sorter.add(buffer, at, std::min(keys.size(), at + 777)).is_ok());
  }
  CHECK_EQ(sorter.num_rows(), keys.size());
  Entries out;
  const Status s = sorter.finish(row_width, [&](const KeyBuffer& entries) {
    for (size_t i = 0; i < entries.size(); ++i) {
      out.emplace_back(as_string(entries.key(i)));
    }
    return Status::ok();
  });
  CHECK(s.is_ok());
  return out;
}

Entries expected_of(const std::vector<std::string>& keys, uint32_t width) {
  std::vector<std::pair<std::string, uint64_t>> pairs;
  for (size_t i = 0; i < keys.size(); ++i) pairs.emplace_back(keys[i], i);
  std::sort(pairs.begin(), pairs.end());
  Entries out;
  for (const auto& [key, row] : pairs) out.push_back(entry_of(key, row, width));
  return out;
}

// Keys of one width: all different, a few values, one value. No key is the
// beginning of another, as with keys of an encoder.
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

TEST(KeyRowSorter, EqualsStdSortSpilledOrNot) {
  const TempDir dir;
  for (const bool fixed : {true, false}) {
    for (const size_t n : {0, 1, 2, 1000, 50000}) {
      for (const auto& keys : columns(n, fixed)) {
        const Entries want = expected_of(keys, 3);
        for (const uint64_t memory : {uint64_t{0}, uint64_t{64} << 20}) {
          CHECK(sorted_by(memory, keys, fixed ? 20 : 0, 3, dir) == want);
        }
      }
    }
  }
  CHECK(dir.names().empty());
}

TEST(KeyRowSorter, RowsAreBigEndianOfAnyWidth) {
  const TempDir dir;
  const std::vector<std::string> keys(300, std::string("k\0", 2));
  for (const uint32_t width : {2u, 5u, 8u}) {
    CHECK(sorted_by(1 << 20, keys, 2, width, dir) == expected_of(keys, width));
  }
}

TEST(KeyRowSorter, AFailingSinkEndsIt) {
  const TempDir dir;
  for (const uint64_t memory : {uint64_t{0}, uint64_t{64} << 20}) {
    KeyRowSorter sorter(memory, dir.path(""));
    const auto keys = columns(20000, true)[0];
    REQUIRE(sorter.add(buffer_of(keys, 20), 0, keys.size()).is_ok());
    const Status s = sorter.finish(
        3, [](const KeyBuffer&) { return Status::io_error("full", 28); });
    CHECK_EQ(s.os_error(), 28);
  }
  CHECK(dir.names().empty());
}

}  // namespace
}  // namespace nimble::testing
