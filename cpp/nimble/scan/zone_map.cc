#include "nimble/scan/zone_map.h"

#include <algorithm>

#include "nimble/format/flat_buffer.h"
#include "nimble/key/big_endian.h"
#include "zone_map_generated.h"

namespace nimble {
namespace {

// One zone map, checked; points into the section's bytes.
struct Zones {
  FlatBufferView<fb::ZoneMap> map;

  size_t size() const { return map->end_rows()->size(); }
  static ByteSpan bound(const flatbuffers::Vector<uint8_t>* bytes,
                        const flatbuffers::Vector<uint32_t>* ends, uint32_t i) {
    const uint32_t begin = i == 0 ? 0 : ends->Get(i - 1);
    return {bytes->data() + begin, ends->Get(i) - begin};
  }
  ByteSpan min(uint32_t i) const {
    return bound(map->min_bytes(), map->min_ends(), i);
  }
  ByteSpan max(uint32_t i) const {
    return bound(map->max_bytes(), map->max_ends(), i);
  }
};

bool ends_fit(const flatbuffers::Vector<uint32_t>* ends,
              const flatbuffers::Vector<uint8_t>* bytes, size_t n) {
  if (ends == nullptr || bytes == nullptr || ends->size() != n) return false;
  uint32_t last = 0;
  for (const uint32_t end : *ends) {
    if (end < last) return false;
    last = end;
  }
  return last <= bytes->size();
}

Result<Zones> parse(const std::vector<uint8_t>& bytes, uint64_t num_rows) {
  auto map = FlatBufferView<fb::ZoneMap>::open(bytes, fb::ZoneMapIdentifier());
  if (!map) return std::move(map).error().with_context("zone map");
  Zones z{std::move(map).value()};
  const auto* rows = z.map->end_rows();
  const size_t n = rows == nullptr ? 0 : rows->size();
  const auto fits = [n](const flatbuffers::Vector<uint64_t>* v) {
    return v != nullptr && v->size() == n && is_aligned(v);
  };
  if (rows == nullptr || !is_aligned(rows) || !fits(z.map->null_counts()) ||
      !fits(z.map->value_counts()) ||
      (z.map->nan_counts() != nullptr && !fits(z.map->nan_counts())) ||
      z.map->max_exact() == nullptr || z.map->max_exact()->size() != n ||
      !ends_fit(z.map->min_ends(), z.map->min_bytes(), n) ||
      !ends_fit(z.map->max_ends(), z.map->max_bytes(), n)) {
    return Status::corrupt("zone map: arrays of different lengths");
  }
  uint64_t last = 0;
  for (const uint64_t end : *rows) {
    if (end <= last) return Status::corrupt("zone map: an empty zone");
    last = end;
  }
  if (last != num_rows) {
    return Status::corrupt("zone map: " + std::to_string(last) +
                           " rows of a file of " + std::to_string(num_rows));
  }
  return z;
}

// Can zone i hold a value in [lower, upper)?
bool may_hold(const Zones& z, uint32_t i, const ZoneQuery& q) {
  const uint64_t nulls = z.map->null_counts()->Get(i);
  const uint64_t values = z.map->value_counts()->Get(i);
  if (q.kind == ZoneQuery::Kind::kNull) return nulls > 0;
  if (q.kind == ZoneQuery::Kind::kValid) return nulls < values;
  const uint64_t nans =
      z.map->nan_counts() == nullptr ? 0 : z.map->nan_counts()->Get(i);
  if (q.nan_matches && nans > 0) return true;
  const ByteSpan min = z.min(i), max = z.max(i);
  if (min.empty() || max.empty()) return nulls + nans < values;
  if (q.upper && compare_bytes(min, *q.upper) >= 0) return false;
  if (!q.lower) return true;
  if (compare_bytes(max, *q.lower) >= 0) return true;
  // A cut bound stands for everything that begins with it.
  const ByteSpan lower = *q.lower;
  return z.map->max_exact()->Get(i) == 0 && lower.size() >= max.size() &&
         compare_bytes(lower.first(max.size()), max) == 0;
}

}  // namespace

Result<std::vector<RowRange>> prune_rows(const OpenFile& file, uint32_t node,
                                         const ZoneQuery& query) {
  const RowRange all{0, file.num_rows()};
  const std::vector<NodeSection>& maps = file.footer().zones;
  const auto map =
      std::find_if(maps.begin(), maps.end(),
                   [node](const NodeSection& m) { return m.node == node; });
  if (map == maps.end() || file.num_rows() == 0) {
    return merge_ranges({all});
  }
  NIMBLE_ASSIGN_OR_RETURN(
      const OpenFile::SectionHandle section,
      file.zone_map(static_cast<size_t>(map - maps.begin())));
  NIMBLE_ASSIGN_OR_RETURN(const Zones zones,
                          parse(section->bytes, file.num_rows()));
  std::vector<RowRange> out;
  uint64_t begin = 0;
  for (uint32_t i = 0; i < zones.size(); ++i) {
    const uint64_t end = zones.map->end_rows()->Get(i);
    if (may_hold(zones, i, query)) {
      if (!out.empty() && out.back().end == begin) {
        out.back().end = end;
      } else {
        out.push_back({begin, end});
      }
    }
    begin = end;
  }
  return out;
}

}  // namespace nimble
