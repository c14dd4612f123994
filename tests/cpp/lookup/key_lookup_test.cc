// Finds rows by key: duplicates across chunks, stripes and groups, and all
// bounds. Compares with a scan of all keys.
#include "nimble/cursor/cluster_cursor.h"

#include <algorithm>
#include <thread>

#include "nimble/locate/probe_rows.h"
#include "nimble/lookup/find_keys.h"
#include "reader/columns.h"

namespace nimble {
namespace {

using namespace nimble::testing;

// A sorted int64 column (keys 0, 2, 4, ... with runs of duplicates, some long).
struct Sorted {
  Sorted(int64_t rows, Rng* rng) : field(struct_of({make_field("l")})) {
    for (int64_t key = 0; static_cast<int64_t>(values.size()) < rows;
         key += 2) {
      const uint64_t run = (*rng)() % 20 == 0 ? 150 : 1 + (*rng)() % 3;
      values.insert(values.end(), run, key);
    }
    values.resize(static_cast<size_t>(rows));
    leaf.length = root.length = rows;
    leaf.n_buffers = 2;
    leaf.buffers = leaf_buffers;
    root.n_buffers = 1;
    root.buffers = root_buffers;
    root.n_children = 1;
    root.children = &child;
    leaf_buffers[1] = values.data();
  }
  ArrayView view() const { return *ArrayView::open(field, root, ""); }
  RowRange find(int64_t key) const {
    const auto [b, e] = std::equal_range(values.begin(), values.end(), key);
    return {static_cast<uint64_t>(b - values.begin()),
            static_cast<uint64_t>(e - values.begin())};
  }

  Field field;
  std::vector<int64_t> values;
  const void* leaf_buffers[2] = {nullptr, nullptr};
  const void* root_buffers[1] = {nullptr};
  ArrowArray leaf{}, root{};
  ArrowArray* child = &leaf;
};

WriterOptions tiny(double bloom_bits = 0) {
  WriterOptions o;
  o.stripe_rows = 64;
  o.group_rows = 200;
  o.key_chunk_rows = 16;
  o.restart_interval = 4;
  o.cluster_by = {{{0}, {}}};
  o.cluster_bloom_bits = bloom_bits;
  return o;
}

ByteBuffer key_of(const FileReader& file, int64_t v) {
  ByteBuffer out;
  const KeyScalar value = KeyScalar::from_int(v);
  CHECK(file.encoder()->encode_tuple({&value, 1}, &out));
  return out;
}

// Empty ranges may be at any position.
bool same(const RowRange& a, const RowRange& b) {
  return (a.empty() && b.empty()) || a == b;
}

// The result has the rows of every probe, in the order of the probes.
void check_result_rows(const LookupAnswer& found) {
  const auto got = probe_rows(found, 1 << 20);
  REQUIRE(got.has_value());
  std::vector<uint64_t> rows, probes;
  for (size_t i = 0; i < found.ranges.size(); ++i) {
    for (uint64_t r = found.ranges[i].begin; r < found.ranges[i].end; ++r) {
      rows.push_back(r);
      probes.push_back(i);
    }
  }
  CHECK(got->keys == probes);
  const auto& [ascending, places] = got->rows;
  CHECK(std::is_sorted(ascending.begin(), ascending.end()));
  std::vector<uint64_t> placed = ascending;
  if (!places.empty()) {
    placed.clear();
    for (const uint64_t p : places) placed.push_back(ascending[p]);
  }
  CHECK(placed == rows);
}

TEST(KeyLookup, EveryKeyAndEveryGap) {
  Rng rng(22);
  const Sorted rows(1500, &rng);
  for (const double bloom : {0.0, 10.0}) {
    const Bytes bytes = write_file(rows.view(), tiny(bloom));
    for (const Reader& file :
         {open_mapped(bytes),
          open_file(std::make_shared<CountingFile>(bytes))}) {
      CHECK(file->footer().groups.size() > 5);
      ClusterCursor shared(file->cluster());
      std::vector<int64_t> probes;
      for (int64_t key = -3; key <= rows.values.back() + 3; ++key)
        probes.push_back(key);
      std::shuffle(probes.begin(), probes.end(), rng);
      for (const int64_t key : probes) {
        const ByteBuffer k = key_of(*file, key);
        const RowRange want = rows.find(key);
        ClusterCursor fresh(file->cluster());
        for (ClusterCursor* cursor : {&shared, &fresh}) {
          const auto found = cursor->find_range(prefix_range(k.span()));
          REQUIRE(found.has_value());
          CHECK(*found == want);
          const auto first = cursor->find_first(k.span());
          REQUIRE(first.has_value());
          CHECK_EQ(first->value_or(UINT64_MAX),
                   want.empty() ? UINT64_MAX : want.begin);
        }
      }
    }
  }
}

TEST(KeyLookup, BatchesInAnyOrderWithRepeats) {
  Rng rng(23);
  const Sorted rows(1500, &rng);
  const Bytes bytes = write_file(rows.view(), tiny(12));
  ReaderOptions one_group;
  one_group.cache_bytes = 1000;
  for (const Reader& file : {open_mapped(bytes), open_mapped(bytes, one_group),
                             open_file(std::make_shared<CountingFile>(bytes))})
    for (const bool whole : {false, true}) {
      KeyBuffer keys(file->encoder()->fixed_width());
      std::vector<RowRange> want;
      for (int i = 0; i < 2000; ++i) {
        const auto key =
            static_cast<int64_t>(
                rng() % static_cast<uint64_t>(rows.values.back() + 9)) -
            4;
        keys.push_back(key_of(*file, key).span());
        want.push_back(rows.find(key));
      }
      const auto got = find_keys(file->cluster(), keys, whole);
      REQUIRE(got.has_value());
      int wrong = 0;
      for (size_t i = 0; i < want.size(); ++i) {
        wrong += !same(got->ranges[i], want[i]);
        wrong += !whole && got->ranges[i].begin != want[i].begin;
      }
      CHECK_EQ(wrong, 0);
      check_result_rows(*got);
    }
}

TEST(KeyLookup, ResultRowsOfDamagedOrTooManyRanges) {
  LookupAnswer found;
  found.ranges = {{4, 6}, {}, {0, 4}, {4, 6}};
  found.ends = {1, 2, 3, 4};
  found.order = {2, 0, 3, 1};
  check_result_rows(found);
  CHECK(probe_rows(found, 8).has_value());
  CHECK(!probe_rows(found, 7).has_value());
  found.ranges[3] = {5, 7};  // overlaps another key's rows
  check_result_rows(found);
  found.order = {};  // of an index with rows anywhere
  check_result_rows(found);
  found.ranges = {{3, 4}, {4, 5}};
  found.ends = {1, 2};
  found.order = {0, 1};
  const auto in_place = probe_rows(found, 2);
  REQUIRE(in_place.has_value());
  CHECK(in_place->rows.places.empty() && in_place->rows.rows.size() == 2);
}

TEST(KeyLookup, RangesAndKeysOfRows) {
  Rng rng(24);
  const Sorted rows(900, &rng);
  const Reader file = open_mapped(write_file(rows.view(), tiny()));
  ClusterCursor cursor(file->cluster());
  for (int round = 0; round < 500; ++round) {
    const auto bound = [&] {
      return static_cast<int64_t>(
                 rng() % static_cast<uint64_t>(rows.values.back() + 6)) -
             3;
    };
    const int64_t lo = bound(), hi = bound();
    KeyRange range;
    uint64_t begin = 0, end = 900;
    if (rng() % 8 != 0) {
      range.lower = key_of(*file, lo);
      begin = rows.find(lo).begin;
    }
    if (rng() % 8 != 0) {
      range.upper = key_of(*file, hi);
      end = rows.find(hi).begin;
    }
    const auto got = cursor.find_range(range);
    REQUIRE(got.has_value());
    CHECK(same(*got, {begin, end}));
  }
  ByteBuffer key;
  for (uint64_t row = 0; row < 900; row += 7) {
    REQUIRE(*cursor.stored_key_at(row, &key));
    CHECK(as_string(key.span()) ==
          as_string(key_of(*file, rows.values[row]).span()));
  }
}

TEST(KeyLookup, OneValueEverywhere) {
  Rng rng(25);
  Sorted rows(1000, &rng);
  std::fill(rows.values.begin(), rows.values.end(), 7);
  const Reader file = open_mapped(write_file(rows.view(), tiny()));
  ClusterCursor cursor(file->cluster());
  for (const int64_t key : {6, 7, 8}) {
    const auto got = cursor.find_range(prefix_range(key_of(*file, key).span()));
    REQUIRE(got.has_value());
    CHECK(same(*got, rows.find(key)));
  }
}

TEST(KeyLookup, NoRows) {
  Rng rng(26);
  const Sorted rows(0, &rng);
  const Reader file = open_mapped(write_file(rows.view(), tiny()));
  KeyBuffer keys(file->encoder()->fixed_width());
  keys.push_back(key_of(*file, 1).span());
  const auto got = find_keys(file->cluster(), keys, true);
  REQUIRE(got.has_value());
  CHECK(got->ranges.size() == 1 && got->ranges[0].empty());
}

TEST(KeyLookup, UnsortedAndRepeatedKeysAreRefusedWithTheirRow) {
  Rng rng(27);
  Sorted rows(500, &rng);
  const auto refusal = [&rows](const WriterOptions& o) {
    auto out = std::make_shared<std::vector<uint8_t>>();
    auto writer =
        FileWriter::create(rows.field, o, std::make_unique<MemoryTarget>(out));
    REQUIRE(writer.has_value());
    Status status = (*writer)->append(rows.view());
    CHECK(!(*writer)->finish().has_value());  // fails after a failure
    CHECK(out->empty());
    return status;
  };
  for (size_t i = 0; i < 500; ++i) rows.values[i] = static_cast<int64_t>(i);
  rows.values[321] = 5;
  WriterOptions o = tiny();
  const Status unsorted = refusal(o);
  CHECK(unsorted.code() == StatusCode::kKeyOrder);
  CHECK(unsorted.message().find("321") != std::string_view::npos);
  rows.values[321] = 320;
  o.unique = true;
  const Status repeated = refusal(o);
  CHECK(repeated.code() == StatusCode::kDuplicateKey);
  CHECK(repeated.message().find("321") != std::string_view::npos);
}

// Groups are loaded and dropped while threads read; also run under TSan.
TEST(KeyLookup, ThreadsWithATinyCache) {
  Rng rng(28);
  const Sorted rows(3000, &rng);
  const Bytes bytes = write_file(rows.view(), tiny());
  ReaderOptions options;
  options.cache_bytes = 1000;  // less than one group
  for (const Reader& file :
       {open_mapped(bytes, options),
        open_file(std::make_shared<CountingFile>(bytes), options)}) {
    std::atomic<int> wrong{0};
    std::vector<std::thread> pool;
    for (uint64_t t = 0; t < 4; ++t) {
      pool.emplace_back([&, t] {
        Rng mine(t);
        const auto reader = RowReader::create_all(file);
        for (int i = 0; i < 150; ++i) {
          const auto row = mine() % 3000;
          RowRange found;
          {
            ClusterCursor cursor(file->cluster());
            const auto got = cursor.find_range(
                prefix_range(key_of(*file, rows.values[row]).span()));
            if (!got) {
              ++wrong;
              continue;
            }
            found = *got;
          }
          wrong += !same(found, rows.find(rows.values[row]));
          Column out = (*reader)->make_output();
          if (!(*reader)->read_ranges({&found, 1}, 1, &out)) {
            ++wrong;
            continue;
          }
          const auto* v =
              reinterpret_cast<const int64_t*>(out.children[0].value_data());
          for (uint64_t k = 0; k < found.size(); ++k)
            wrong += v[k] != rows.values[row];
        }
      });
    }
    for (std::thread& t : pool) t.join();
    CHECK_EQ(wrong.load(), 0);
  }
}

}  // namespace
}  // namespace nimble
