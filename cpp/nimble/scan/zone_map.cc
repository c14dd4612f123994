#include "nimble/scan/zone_map.h"

#include <algorithm>

#include "nimble/format/flat_buffer.h"
#include "nimble/key/big_endian.h"
#include "zone_map_generated.h"

namespace nimble {
namespace {

// One zone map, checked. Points into the section's bytes.
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
    return Status::corrupt("zone map: its arrays have different lengths");
  }
  uint64_t last = 0;
  for (const uint64_t end : *rows) {
    if (end <= last) return Status::corrupt("zone map: a zone has no rows");
    last = end;
  }
  if (last != num_rows) {
    return Status::corrupt("zone map: " + std::to_string(last) +
                           " rows of a file of " + std::to_string(num_rows));
  }
  return z;
}

// The values of one or more zones. Borrows the bounds.
struct Extent {
  ByteSpan min, max;
  bool is_max_exact = true;
  uint64_t nulls = 0, nans = 0, values = 0;
};

Extent extent_of(const Zones& z, uint32_t i) {
  const auto* nans = z.map->nan_counts();
  return {z.min(i),
          z.max(i),
          z.map->max_exact()->Get(i) != 0,
          z.map->null_counts()->Get(i),
          nans == nullptr ? 0 : nans->Get(i),
          z.map->value_counts()->Get(i)};
}

bool begins_with(ByteSpan key, ByteSpan front) {
  return key.size() >= front.size() &&
         compare_bytes(key.first(front.size()), front) == 0;
}

bool may_hold(const Extent& z, const ZoneQuery& q) {
  if (q.kind == ZoneQuery::Kind::kNull) return z.nulls > 0;
  if (q.kind == ZoneQuery::Kind::kValid) return z.nulls < z.values;
  if (q.nan_matches && z.nans > 0) return true;
  if (z.min.empty() || z.max.empty()) return z.nulls + z.nans < z.values;
  if (q.upper && compare_bytes(z.min, *q.upper) >= 0) return false;
  if (!q.lower) return true;
  if (compare_bytes(z.max, *q.lower) >= 0) return true;
  // A cut bound stands for all keys that begin with it.
  return !z.is_max_exact && begins_with(*q.lower, z.max);
}

// Extends `all` by a zone.
void extend(const Extent& zone, Extent* all) {
  const bool has_bounds = all->nulls + all->nans < all->values;
  all->nulls += zone.nulls;
  all->nans += zone.nans;
  all->values += zone.values;
  if (zone.nulls + zone.nans == zone.values) return;
  if (!has_bounds) {
    all->min = zone.min;
    all->max = zone.max;
    all->is_max_exact = zone.is_max_exact;
    return;
  }
  if (all->min.empty() || zone.min.empty()) {
    all->min = {};
  } else if (compare_bytes(zone.min, all->min) < 0) {
    all->min = zone.min;
  }
  if (all->max.empty() || zone.max.empty()) {
    all->max = {};
    return;
  }
  // Keeps the bound that reaches further. A cut bound includes all keys that
  // begin with it.
  const int order = compare_bytes(zone.max, all->max);
  const bool includes_all =
      !zone.is_max_exact && begins_with(all->max, zone.max);
  const bool is_included =
      !all->is_max_exact && begins_with(zone.max, all->max);
  if (includes_all || (order > 0 && !is_included)) {
    all->max = zone.max;
    all->is_max_exact = zone.is_max_exact;
  }
}

// Returns the zone map of a leaf, or null if the file does not have one.
Result<OpenFile::SectionHandle> section_of(const OpenFile& file,
                                           uint32_t node) {
  const std::vector<NodeSection>& maps = file.footer().zones;
  const auto map =
      std::find_if(maps.begin(), maps.end(),
                   [node](const NodeSection& m) { return m.node == node; });
  if (map == maps.end() || file.num_rows() == 0) {
    return OpenFile::SectionHandle();
  }
  return file.zone_map(static_cast<size_t>(map - maps.begin()));
}

}  // namespace

bool may_hold(const ZoneValues& zone, const ZoneQuery& query) {
  return may_hold(Extent{zone.min, zone.max, zone.is_max_exact, zone.nulls,
                         zone.nans, zone.values},
                  query);
}

Result<std::optional<ZoneValues>> values_in_file(const OpenFile& file,
                                                 uint32_t node) {
  NIMBLE_ASSIGN_OR_RETURN(const OpenFile::SectionHandle section,
                          section_of(file, node));
  if (!section) return std::optional<ZoneValues>();
  NIMBLE_ASSIGN_OR_RETURN(const Zones zones,
                          parse(section->bytes, file.num_rows()));
  Extent all;
  for (uint32_t i = 0; i < zones.size(); ++i) extend(extent_of(zones, i), &all);
  return std::optional(ZoneValues{{all.min.begin(), all.min.end()},
                                  {all.max.begin(), all.max.end()},
                                  all.is_max_exact,
                                  all.nulls,
                                  all.nans,
                                  all.values});
}

Result<std::vector<RowRange>> prune_rows(const OpenFile& file, uint32_t node,
                                         const ZoneQuery& query) {
  NIMBLE_ASSIGN_OR_RETURN(const OpenFile::SectionHandle section,
                          section_of(file, node));
  if (!section) {
    return merge_ranges({RowRange{0, file.num_rows()}});
  }
  NIMBLE_ASSIGN_OR_RETURN(const Zones zones,
                          parse(section->bytes, file.num_rows()));
  std::vector<RowRange> out;
  uint64_t begin = 0;
  for (uint32_t i = 0; i < zones.size(); ++i) {
    const uint64_t end = zones.map->end_rows()->Get(i);
    if (may_hold(extent_of(zones, i), query)) {
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
