#include "nimble/lookup/sorted_index.h"

#include <algorithm>
#include <random>

#include "io/temp_dir.h"
#include "lookup/indexed_file.h"
#include "nimble/index/sorted_index_writer.h"
#include "nimble/io/memory_file.h"

namespace nimble::testing {
namespace {

IndexedFile build(const std::vector<std::string>& keys, uint64_t memory) {
  const TempDir dir;
  SortedIndexOptions options;
  options.chunk_keys = 50;
  options.chunks_per_group = 7;
  options.memory_bytes = memory;
  options.spill_directory = dir.path("");
  SortedIndexWriter writer(options);
  REQUIRE(writer.add(keys_of(keys), 0, keys.size()).is_ok());
  return file_with_index(keys.size(), [&](const SectionSink& sink) {
    return writer.finish(sink);
  });
}

// Keys of some values, terminated so that no key is a prefix of another.
std::vector<std::string> random_keys(size_t n, size_t different) {
  std::mt19937_64 rng(n);
  std::vector<std::string> out(n);
  for (auto& k : out) k = "key" + std::to_string(rng() % different) + '\0';
  return out;
}

std::vector<uint64_t> rows_with(const std::vector<std::string>& keys,
                                const std::string& prefix) {
  std::vector<std::pair<std::string, uint64_t>> found;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].starts_with(prefix)) found.emplace_back(keys[i], i);
  }
  std::sort(found.begin(), found.end());
  std::vector<uint64_t> rows;
  for (const auto& [key, row] : found) rows.push_back(row);
  return rows;
}

TEST(SortedIndex, PrefixesGiveRowsInKeyOrder) {
  for (const size_t n : {0, 1, 49, 50, 51, 5000}) {
    for (const size_t different : {1, 30, 1 << 20}) {
      const auto keys = random_keys(n, different);
      for (const uint64_t memory : {uint64_t{0}, uint64_t{1} << 26}) {
        const IndexedFile made = build(keys, memory);
        const auto file = open_mapped(made.file);
        const auto index = SortedIndex::open(*file, made.root);
        REQUIRE(index.has_value());
        CHECK_EQ((*index)->num_keys(), n);
        SortedCursor cursor(**index);
        std::vector<std::string> probes = {"", "key", "key1", "kez", "a"};
        for (size_t i = 0; i < n; i += 97) probes.push_back(keys[i]);
        for (const auto& probe : probes) {
          const auto places = cursor.find_prefix(as_bytes(probe));
          REQUIRE(places.has_value());
          std::vector<uint64_t> rows;
          REQUIRE(cursor.rows(*places, &rows).is_ok());
          CHECK(rows == rows_with(keys, probe));
        }
        for (const auto& probe : probes) {
          if (!probe.ends_with('\0')) continue;  // no whole key
          const auto first = cursor.find_first(as_bytes(probe));
          REQUIRE(first.has_value());
          CHECK_EQ(first->value_or(n), rows_with(keys, probe).front());
        }
        const auto absent = cursor.find_first(as_bytes("key1;"));
        REQUIRE(absent.has_value());
        CHECK(!absent->has_value());
      }
    }
  }
}

TEST(SortedIndex, CountsWhatItLoadsAndKeepsNoMoreThanItMay) {
  const auto keys = random_keys(5000, 1 << 20);
  const IndexedFile made = build(keys, 1 << 26);
  for (const uint64_t capacity : {uint64_t{1} << 20, uint64_t{4} << 10}) {
    const bool fits = capacity > (1 << 16);
    ReaderOptions options;
    options.cache_bytes = capacity;
    const auto file = open_mapped(made.file, options);
    const uint64_t before = file->budget()->used();
    const auto index = SortedIndex::open(*file, made.root);
    REQUIRE(index.has_value());
    const uint64_t root = file->budget()->used() - before;
    CHECK(root >= made.root.size());
    SortedCursor cursor(**index);
    REQUIRE(cursor.find_prefix(as_bytes(keys[0])).has_value());
    const uint64_t one = file->budget()->used() - before;
    CHECK(one > root);
    REQUIRE(cursor.find_prefix(as_bytes(keys[0])).has_value());
    CHECK_EQ(file->budget()->used() - before, one);
    std::vector<uint64_t> rows;
    REQUIRE(cursor.rows({0, keys.size()}, &rows).is_ok());
    CHECK_EQ(rows.size(), keys.size());
    const uint64_t all = file->budget()->used() - before;
    // If not everything fits, the group that the cursor uses is kept.
    CHECK(fits ? all > one : all <= root + capacity + 2 * (one - root));
  }
}

TEST(SortedIndex, EntriesAreThereOrNot) {
  const auto keys = random_keys(1000, 200);
  const IndexedFile made = build(keys, 1 << 26);
  const auto file = open_mapped(made.file);
  const auto index = SortedIndex::open(*file, made.root);
  REQUIRE(index.has_value());
  SortedCursor cursor(**index);
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto here = cursor.has_entry(as_bytes(keys[i]), i);
    REQUIRE(here.has_value());
    CHECK(*here);
    const size_t other = (i + 1) % keys.size();
    const auto there = cursor.has_entry(as_bytes(keys[i]), other);
    REQUIRE(there.has_value());
    CHECK_EQ(*there, keys[i] == keys[other]);
  }
}

TEST(SortedIndex, BrokenRootsAreCorrupt) {
  const IndexedFile made = build(random_keys(1000, 200), 1 << 26);
  const auto file = open_mapped(made.file);
  for (size_t cut = 0; cut < made.root.size(); cut += 8) {
    const std::vector<uint8_t> root(made.root.begin(),
                                    made.root.begin() + static_cast<long>(cut));
    const auto index = SortedIndex::open(*file, root);
    if (!index) CHECK(index.error().code() == StatusCode::kCorrupt);
  }
  // The root of a file with other rows.
  const IndexedFile fewer = build(random_keys(999, 200), 1 << 26);
  const auto other = open_mapped(fewer.file);
  const auto index = SortedIndex::open(*other, made.root);
  REQUIRE(!index.has_value());
  CHECK(index.error().code() == StatusCode::kCorrupt);
}

}  // namespace
}  // namespace nimble::testing
