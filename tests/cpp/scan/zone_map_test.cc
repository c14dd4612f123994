// Zone maps may keep too many rows, but never too few, and must prune if they
// can.
#include "nimble/scan/zone_map.h"

#include <algorithm>
#include <cmath>

#include "reader/columns.h"

namespace nimble {
namespace {

using namespace nimble::testing;

constexpr uint64_t kZone = 10;

WriterOptions zones_of_ten() {
  WriterOptions o;
  o.stripe_rows = 35;  // the last zone of each stripe is short
  o.group_rows = 100;
  o.zone_rows = kZone;
  return o;
}

// Keys of one column as zone maps compare them: ascending, nulls last.
std::vector<std::string> keys_of(const ArrayView& root, int column) {
  const KeyColumnSpec spec{{column}, {}};
  const auto encoder = KeyEncoder::create(root.field(), {spec});
  REQUIRE(encoder.has_value());
  KeyBuffer keys;
  REQUIRE(encoder->encode(root, 0, root.length(), &keys).is_ok());
  std::vector<std::string> out;
  for (size_t i = 0; i < keys.size(); ++i)
    out.emplace_back(as_string(keys.key(i)));
  return out;
}

bool is_nan(const ArrayView& v, int64_t row) {
  const uint8_t* p = v.values() + row * v.field().width;
  if (v.field().logical != Logical::kFloat) return false;
  if (v.field().width == 8) return std::isnan(load<double>(p));
  if (v.field().width == 4) return std::isnan(load<float>(p));
  return (load<uint16_t>(p) & 0x7fff) > 0x7c00;
}

bool holds(const std::vector<RowRange>& ranges, uint64_t row) {
  for (const RowRange& r : ranges) {
    if (row >= r.begin && row < r.end) return true;
  }
  return false;
}

std::vector<uint8_t> to_bytes(const std::string& s) {
  return {s.begin(), s.end()};
}

TEST(ZoneMap, NeverLosesARow) {
  Rng rng(33);
  uint64_t kept = 0, asked = 0;
  for (const Field& f : every_field()) {
    const Field root = struct_of({f});
    const StreamPlan plan(root);
    if (!ZoneBuilder::has_zones(plan, 1)) continue;
    const RandomArray array(root, 300, &rng);
    const ArrayView view = array.view();
    const ArrayView leaf = view.children()[0];
    const std::vector<std::string> keys = keys_of(view, 0);
    const Reader file = open_mapped(write_file(view, zones_of_ten()));
    CHECK_EQ(file->footer().zones.size(), 1);
    for (int round = 0; round < 60; ++round) {
      ZoneQuery q;
      q.kind = static_cast<ZoneQuery::Kind>(round % 6 < 4 ? 0 : round % 6 - 3);
      q.nan_matches = rng() % 2 == 0;
      std::string lower = keys[rng() % keys.size()],
                  upper = keys[rng() % keys.size()];
      if (upper < lower) std::swap(lower, upper);
      if (rng() % 4 != 0) q.lower = to_bytes(lower);
      if (rng() % 4 != 0) q.upper = to_bytes(upper);
      const auto got = prune_rows(*file, 1, q);
      REQUIRE(got.has_value());
      int lost = 0;
      for (uint64_t row = 0; row < 300; ++row) {
        const int64_t at = view.child_row(static_cast<int64_t>(row));
        const bool valid = leaf.is_valid(at), nan = valid && is_nan(leaf, at);
        bool match = q.kind == ZoneQuery::Kind::kNull ? !valid : valid;
        if (q.kind == ZoneQuery::Kind::kRange) {
          match = valid && (nan ? q.nan_matches
                                : (!q.lower || keys[row] >= lower) &&
                                      (!q.upper || keys[row] < upper));
        }
        lost += match && !holds(*got, row);
      }
      CHECK_EQ(lost, 0);
      kept += count_rows(*got);
      asked += 300;
    }
  }
  CHECK(kept < asked);
}

// For ascending numbers, exactly the zones that overlap the range are kept.
TEST(ZoneMap, ProvesWhatItCan) {
  std::vector<int32_t> values(300);
  for (int i = 0; i < 300; ++i) values[static_cast<size_t>(i)] = i;
  const void* leaf_buffers[] = {nullptr, values.data()};
  ArrowArray leaf{}, root{};
  leaf.length = root.length = 300;
  leaf.n_buffers = 2;
  leaf.buffers = leaf_buffers;
  const void* root_buffers[] = {nullptr};
  ArrowArray* children[] = {&leaf};
  root.n_buffers = 1;
  root.buffers = root_buffers;
  root.n_children = 1;
  root.children = children;
  const Field field = struct_of({make_field("i")});
  const auto view = ArrayView::open(field, root, "");
  REQUIRE(view.has_value());
  const std::vector<std::string> keys = keys_of(*view, 0);
  const Reader file = open_mapped(write_file(*view, zones_of_ten()));
  const auto zone_begin = [](uint64_t row) {
    return row / 35 * 35 + row % 35 / kZone * kZone;
  };
  const auto zone_end = [](uint64_t row) {
    return std::min({uint64_t{300},
                     row / 35 * 35 + std::min<uint64_t>(
                                         35, (row % 35 / kZone + 1) * kZone)});
  };
  for (uint64_t lo = 0; lo < 300; lo += 7) {
    for (uint64_t hi = lo + 1; hi < 300; hi += 11) {
      ZoneQuery q;
      q.lower = to_bytes(keys[lo]);
      q.upper = to_bytes(keys[hi]);
      const auto got = prune_rows(*file, 1, q);
      REQUIRE(got.has_value());
      CHECK(*got ==
            std::vector<RowRange>({{zone_begin(lo), zone_end(hi - 1)}}));
    }
  }
  ZoneQuery nulls;
  nulls.kind = ZoneQuery::Kind::kNull;
  CHECK(prune_rows(*file, 1, nulls)->empty());
  ZoneQuery valid;
  valid.kind = ZoneQuery::Kind::kValid;
  CHECK(*prune_rows(*file, 1, valid) == std::vector<RowRange>({{0, 300}}));
}

TEST(ZoneMap, NoStatisticsKeepEverything) {
  Rng rng(34);
  const Field root = struct_of({make_field("i"), make_field("u")});
  const RandomArray array(root, 100, &rng);
  WriterOptions o = zones_of_ten();
  o.statistics_columns = {1};
  const Reader some = open_mapped(write_file(array.view(), o));
  o.statistics = false;
  const Reader none = open_mapped(write_file(array.view(), o));
  ZoneQuery q;
  q.upper.emplace();  // nothing is below the empty key
  const std::vector<RowRange> all{{0, 100}};
  CHECK(*prune_rows(*some, 1, q) == all);
  CHECK(*prune_rows(*some, 2, q) != all);
  CHECK(*prune_rows(*none, 2, q) == all);
}

// Bounds of long texts are truncated. A truncated maximum covers all texts that
// begin with it.
TEST(ZoneMap, LongTextsThatShareABeginning) {
  const std::string base(200, 'x');
  std::string data;
  std::vector<int32_t> offsets{0};
  for (int i = 0; i < 60; ++i) {
    data += base + static_cast<char>('a' + i / 10) +
            std::string(static_cast<size_t>(i % 10), 'y');
    offsets.push_back(static_cast<int32_t>(data.size()));
  }
  const void* leaf_buffers[] = {nullptr, offsets.data(), data.data()};
  ArrowArray leaf{}, root{};
  leaf.length = root.length = 60;
  leaf.n_buffers = 3;
  leaf.buffers = leaf_buffers;
  const void* root_buffers[] = {nullptr};
  ArrowArray* children[] = {&leaf};
  root.n_buffers = 1;
  root.buffers = root_buffers;
  root.n_children = 1;
  root.children = children;
  const Field field = struct_of({make_field("u")});
  const auto view = ArrayView::open(field, root, "");
  REQUIRE(view.has_value());
  const std::vector<std::string> keys = keys_of(*view, 0);
  const Reader file = open_mapped(write_file(*view, zones_of_ten()));
  for (uint64_t row = 0; row < 60; ++row) {
    ZoneQuery q;
    q.lower = to_bytes(keys[row]);
    const auto got = prune_rows(*file, 1, q);
    REQUIRE(got.has_value());
    CHECK(holds(*got, row));
    q.upper = to_bytes(keys[row] + '\xff');
    CHECK(holds(*prune_rows(*file, 1, q), row));
  }
}

}  // namespace
}  // namespace nimble
