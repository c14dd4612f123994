// Sorting with little memory is a stable sort.
#include "nimble/write/sorting_writer.h"

#include <algorithm>
#include <numeric>

#include "io/temp_dir.h"
#include "reader/columns.h"

namespace nimble {
namespace {

using namespace nimble::testing;

struct Sorted {
  Texts texts;
  uint64_t num_spilled;
};

// Spills to `dir`.
Sorted sort_through_file(const std::vector<ArrayView>& batches, WriterOptions o,
                         const TempDir& dir) {
  o.spill_directory = dir.path("");
  auto out = std::make_shared<std::vector<uint8_t>>();
  auto writer = FileWriter::create(batches[0].field(), std::move(o),
                                   std::make_unique<MemoryTarget>(out));
  REQUIRE(writer.has_value());
  SortingWriter sorting(std::move(*writer));
  for (const ArrayView& b : batches) {
    const Status status = sorting.append(b);
    if (!status) fail(__FILE__, __LINE__, std::string(status.message()));
    REQUIRE(status.is_ok());
  }
  const auto done = sorting.finish();
  if (!done) fail(__FILE__, __LINE__, std::string(done.error().message()));
  REQUIRE(done.has_value());
  const Reader file = open_mapped(out);
  return {read_texts(file, {{0, file->num_rows()}}), sorting.num_spilled()};
}

WriterOptions by(std::vector<KeyColumnSpec> columns) {
  WriterOptions o;
  o.cluster_by = std::move(columns);
  o.stripe_rows = 50;
  o.group_rows = 170;
  o.key_chunk_rows = 16;
  o.threads = 2;
  return o;
}

// The rows of all batches, sorted stably by key.
Texts expected(const std::vector<ArrayView>& batches, const WriterOptions& o) {
  const auto encoder = KeyEncoder::create(batches[0].field(), o.cluster_by);
  REQUIRE(encoder.has_value());
  Texts texts;
  std::vector<std::string> keys;
  for (const ArrayView& b : batches) {
    KeyBuffer buffer;
    REQUIRE(encoder->encode(b, 0, b.length(), &buffer).is_ok());
    for (size_t i = 0; i < buffer.size(); ++i)
      keys.emplace_back(as_string(buffer.key(i)));
    for (std::string& s : row_texts(b)) texts.push_back(std::move(s));
  }
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return keys[a] < keys[b]; });
  Texts out;
  for (const size_t i : order) out.push_back(texts[i]);
  return out;
}

TEST(SortingWriter, AnyBudgetIsAStableSort) {
  Rng rng(29);
  std::vector<Field> columns = every_field();
  columns.insert(columns.begin(), {make_field("c"), make_field("u")});
  const Field root = struct_of(columns);
  std::vector<std::unique_ptr<RandomArray>> arrays;
  std::vector<ArrayView> batches;
  for (const int64_t n : {40, 0, 1, 90, 70, 64, 33}) {
    arrays.push_back(std::make_unique<RandomArray>(root, n, &rng));
    batches.push_back(arrays.back()->view());
  }
  for (const std::vector<KeyColumnSpec>& key :
       {std::vector<KeyColumnSpec>{{{0}, {}}},
        std::vector<KeyColumnSpec>{{{0}, {true, true}}, {{1}, {}}}}) {
    WriterOptions o = by(key);
    const Texts want = expected(batches, o);
    for (const uint64_t budget :
         {uint64_t{1}, uint64_t{60000}, uint64_t{1} << 30}) {
      const TempDir dir;
      o.sort_memory_bytes = budget;
      const Sorted got = sort_through_file(batches, o, dir);
      CHECK(got.texts == want);
      CHECK(budget != 1 || got.num_spilled >= 298);
      CHECK(budget != uint64_t{1} << 30 || got.num_spilled == 0);
      CHECK(dir.names().empty());  // spill files have no names
    }
  }
}

// If all columns are in the key, the sorter has only keys.
TEST(SortingWriter, RowsWithoutOtherColumns) {
  Rng rng(32);
  const Field root = struct_of(
      {make_field("u"), make_field("l"), make_field("b"), make_field("z")});
  std::vector<std::unique_ptr<RandomArray>> arrays;
  std::vector<ArrayView> batches;
  for (const int64_t n : {40, 0, 1, 900, 700, 64, 33}) {
    arrays.push_back(std::make_unique<RandomArray>(root, n, &rng));
    batches.push_back(arrays.back()->view());
  }
  WriterOptions o =
      by({{{2}, {}}, {{0}, {true, true}}, {{3}, {}}, {{1}, {false, true}}});
  const Texts want = expected(batches, o);
  for (const uint64_t budget : {uint64_t{1}, uint64_t{1} << 30}) {
    const TempDir dir;
    o.sort_memory_bytes = budget;
    const Sorted got = sort_through_file(batches, o, dir);
    CHECK(got.texts == want);
    CHECK_EQ(got.num_spilled > 0, budget == 1);
  }
}

TEST(SortingWriter, LongRunsOfOneKeyKeepTheirOrder) {
  Rng rng(30);
  // A key of one bit, and a column that distinguishes rows.
  const Field root =
      struct_of({make_field("b"), make_field("l"), make_field("u")});
  std::vector<std::unique_ptr<RandomArray>> arrays;
  std::vector<ArrayView> batches;
  for (int i = 0; i < 5; ++i) {
    arrays.push_back(std::make_unique<RandomArray>(root, 4000, &rng));
    batches.push_back(arrays.back()->view());
  }
  WriterOptions o = by({{{0}, {true, false}}});
  o.sort_memory_bytes = 1;
  const TempDir dir;
  CHECK(sort_through_file(batches, o, dir).texts == expected(batches, o));
}

TEST(SortingWriter, NeedsItsDirectoryOnlyToSpill) {
  Rng rng(31);
  const Field root = struct_of({make_field("i")});
  const RandomArray rows(root, 100, &rng);
  for (const uint64_t budget : {uint64_t{1}, uint64_t{1} << 20}) {
    auto out = std::make_shared<std::vector<uint8_t>>();
    WriterOptions o = by({{{0}, {}}});
    o.sort_memory_bytes = budget;
    o.spill_directory = "/nonexistent-directory";
    auto writer =
        FileWriter::create(root, o, std::make_unique<MemoryTarget>(out));
    REQUIRE(writer.has_value());
    SortingWriter sorting(std::move(*writer));
    const Status status = sorting.append(rows.view());
    CHECK(status.is_ok() == (budget > 1));
    if (budget == 1) CHECK(status.code() == StatusCode::kIoError);
  }
}

}  // namespace
}  // namespace nimble
