// Whole files in memory, with stripes and groups of few rows.
#include <algorithm>

#include "reader/columns.h"

namespace nimble {
namespace {

using namespace nimble::testing;

WriterOptions tiny() {
  WriterOptions o;
  o.stripe_rows = 37;
  o.group_rows = 100;
  o.zone_rows = 10;
  o.threads = 2;
  return o;
}

void check_ways_to_read(const Reader& file, const Texts& all, Rng* rng) {
  const uint64_t n = all.size();
  CHECK_EQ(file->num_rows(), n);
  CHECK(read_texts(file, {{0, n}}) == all);
  CHECK(read_texts(file, {{0, n}}, 3) == all);
  CHECK(read_texts(file, {}).empty());
  for (int round = 0; round < 5; ++round) {
    std::vector<RowRange> ranges;
    Texts want;
    for (uint64_t at = (*rng)() % 50; at < n; at += (*rng)() % 50) {
      const uint64_t end = std::min(n, at + 1 + (*rng)() % 60);
      ranges.push_back({at, end});
      want.insert(want.end(), all.begin() + static_cast<int64_t>(at),
                  all.begin() + static_cast<int64_t>(end));
      at = end;
    }
    CHECK(read_texts(file, ranges) == want);
    std::vector<uint64_t> rows(round < 4 ? (*rng)() % 60 : 1);
    for (uint64_t& r : rows) r = (*rng)() % n;
    if (round % 2 == 0) std::sort(rows.begin(), rows.end());
    want.clear();
    for (const uint64_t r : rows) want.push_back(all[r]);
    CHECK(take_texts(file, rows) == want);
  }
}

TEST(RoundTrip, EveryFieldAlone) {
  Rng rng(14);
  for (const Field& f : every_field()) {
    const Field root = struct_of({f});
    const RandomArray rows(root, 250, &rng);
    const Texts all = row_texts(rows.view());
    const Bytes bytes = write_file(rows.view(), tiny());
    check_ways_to_read(open_mapped(bytes), all, &rng);
    check_ways_to_read(open_file(std::make_shared<CountingFile>(bytes)), all,
                       &rng);
  }
}

TEST(RoundTrip, AllFieldsTogether) {
  Rng rng(15);
  const Field root = struct_of(every_field());
  const RandomArray rows(root, 333, &rng);
  const Texts all = row_texts(rows.view());
  for (const Effort effort :
       {Effort::kFast, Effort::kBalanced, Effort::kCompact}) {
    WriterOptions o = tiny();
    o.effort = effort;
    const Bytes bytes = write_file(rows.view(), o);
    check_ways_to_read(open_mapped(bytes), all, &rng);
    // Caches without capacity do not change results.
    ReaderOptions none;
    none.cache_bytes = 0;
    check_ways_to_read(open_mapped(bytes, none), all, &rng);
    check_ways_to_read(open_file(std::make_shared<CountingFile>(bytes), none),
                       all, &rng);
  }
}

TEST(RoundTrip, FewRowsAndNone) {
  Rng rng(16);
  const Field root = struct_of(every_field());
  for (const int64_t n : {0, 1, 2}) {
    const RandomArray rows(root, n, &rng);
    const Bytes bytes = write_file(rows.view(), tiny());
    CHECK(read_texts(open_mapped(bytes), {{0, static_cast<uint64_t>(n)}}) ==
          row_texts(rows.view()));
  }
  const Field nothing = struct_of({});
  const RandomArray rows(nothing, 120, &rng);
  CHECK_EQ(open_mapped(write_file(rows.view(), tiny()))->num_rows(), 120);
}

TEST(RoundTrip, BytesDoNotDependOnThreads) {
  Rng rng(17);
  const Field root = struct_of(every_field());
  const RandomArray rows(root, 200, &rng);
  WriterOptions o = tiny();
  o.threads = 1;
  const Bytes one = write_file(rows.view(), o);
  o.threads = 4;
  CHECK(*write_file(rows.view(), o) == *one);
}

TEST(RoundTrip, OneSegmentMoreThanAStripeHolds) {
  // Two segments per stream: more than 131072 values.
  Rng rng(18);
  const Field root =
      struct_of({make_field("i"), make_field("u"), make_field("b"),
                 make_field("+l", {make_field("C")})});
  const int64_t n = 131072 + 300;
  const RandomArray rows(root, n, &rng);
  const Texts all = row_texts(rows.view());
  WriterOptions o;
  o.stripe_rows = 1 << 20;
  const Bytes bytes = write_file(rows.view(), o);
  const auto mapped = open_mapped(bytes);
  CHECK_EQ(mapped->footer().num_stripes, 1);
  for (const Reader& file :
       {mapped, open_file(std::make_shared<CountingFile>(bytes))}) {
    CHECK(read_texts(file, {{0, static_cast<uint64_t>(n)}}, 2) == all);
    CHECK(read_texts(file, {{131000, 131100}}) ==
          Texts(all.begin() + 131000, all.begin() + 131100));
    CHECK(take_texts(file, {131071, 131072, 5}) ==
          Texts({all[131071], all[131072], all[5]}));
  }
}

// A nested field without the structs above it is null if they are null.
TEST(RoundTrip, NestedFieldsByPath) {
  Rng rng(19);
  const Field inner = make_field("+s", {make_field("i"), make_field("u")});
  const Field root = struct_of({make_field("+s", {inner, make_field("b")})});
  const RandomArray rows(root, 300, &rng);
  const Bytes bytes = write_file(rows.view(), tiny());
  for (const Reader& file :
       {open_mapped(bytes), open_file(std::make_shared<CountingFile>(bytes))}) {
    const auto reader =
        RowReader::create(file, {{{0, 0, 1}, "c0.a.b"}, {{0, 1}, "c0.b"}});
    REQUIRE(reader.has_value());
    Column out = (*reader)->make_output();
    const RowRange all[] = {{0, 300}};
    REQUIRE((*reader)->read_ranges(all, 1, &out).is_ok());
    const Exported got(std::move(out));
    const ArrayView top = rows.view().children()[0];
    const ArrayView mid = top.children()[0];
    int wrong = 0;
    for (int64_t i = 0; i < 300; ++i) {
      const int64_t t = rows.view().child_row(i), m = top.child_row(t),
                    k = mid.child_row(m);
      const ArrayView text = got.view().children()[0],
                      flag = got.view().children()[1];
      const int64_t at = got.view().child_row(i);
      const bool valid =
          top.is_valid(t) && mid.is_valid(m) && mid.children()[1].is_valid(k);
      wrong += text.is_valid(at) != valid;
      wrong += valid && text.bytes_at(at) != mid.children()[1].bytes_at(k);
      const bool flag_valid = top.is_valid(t) && top.children()[1].is_valid(m);
      wrong += flag.is_valid(at) != flag_valid;
      wrong += flag_valid && flag.bool_at(at) != top.children()[1].bool_at(m);
    }
    CHECK_EQ(wrong, 0);
  }
}

TEST(RoundTrip, RowsPastTheEndAreRefused) {
  Rng rng(20);
  const Field root = struct_of({make_field("i")});
  const RandomArray rows(root, 10, &rng);
  const auto reader =
      RowReader::create_all(open_mapped(write_file(rows.view(), tiny())));
  REQUIRE(reader.has_value());
  Column out = (*reader)->make_output();
  const uint64_t past[] = {10};
  CHECK((*reader)->take(past, 1, &out).code() == StatusCode::kInvalidArgument);
}

TEST(RoundTrip, PathsThatLeadNowhereAreRefused) {
  Rng rng(20);
  const Field root = struct_of(
      {make_field("i"), make_field("+l", {make_field("i", {}, "item")})});
  const RandomArray rows(root, 10, &rng);
  const Reader file = open_mapped(write_file(rows.view(), tiny()));
  for (const ColumnPath& path : {ColumnPath{}, {2}, {-1}, {0, 0}, {1, 0}}) {
    const auto reader = RowReader::create(file, {{path, "x"}});
    REQUIRE(!reader.has_value());
    CHECK(reader.error().code() == StatusCode::kInvalidArgument);
  }
}

TEST(RoundTrip, FlippedBitsGiveAStatusOrTheRows) {
  // Not every encoding has checksums of segment bodies, so values may be wrong.
  // But reading must end without undefined behaviour.
  Rng rng(21);
  const Field root = struct_of(every_field());
  const RandomArray rows(root, 60, &rng);
  const Bytes bytes = write_file(rows.view(), tiny());
  int refused = 0;
  for (int round = 0; round < 400; ++round) {
    auto wrong = std::make_shared<std::vector<uint8_t>>(*bytes);
    (*wrong)[rng() % wrong->size()] ^= static_cast<uint8_t>(1 << rng() % 8);
    for (const bool mapped : {true, false}) {
      std::shared_ptr<const ReadableFile> file;
      if (mapped) {
        file = std::make_shared<MemoryFile>(*wrong, wrong);
      } else {
        file = std::make_shared<CountingFile>(wrong);
      }
      const auto opened = FileReader::open(std::move(file), {});
      if (!opened) {
        ++refused;
        continue;
      }
      const auto reader = RowReader::create_all(*opened);
      REQUIRE(reader.has_value());
      Column out = (*reader)->make_output();
      const RowRange all[] = {{0, 60}};
      if (!(*reader)->read_ranges(all, 1, &out)) {
        ++refused;
        continue;
      }
      ArrowArray array{};
      if (std::move(out).export_array(&array)) array.release(&array);
    }
  }
  CHECK(refused > 100);
}

}  // namespace
}  // namespace nimble
