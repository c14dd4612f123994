// ZoneBuilder: collects minimum, maximum, nulls and NaNs of one leaf column for
// every zone of rows, while stripes are written. Not thread-safe.
// docs/format/zone_maps.md.
#pragma once

#include <vector>

#include "nimble/column/column.h"
#include "nimble/format/stream_plan.h"
#include "nimble/key/key_column.h"

namespace nimble {

// Longer bounds are truncated.
inline constexpr size_t kMaxZoneBound = 64;

class ZoneBuilder {
 public:
  // REQUIRES: has_zones(plan, node).
  ZoneBuilder(const StreamPlan& plan, uint32_t node, uint32_t zone_rows);

  // Whether zone maps are written for `node`: a leaf of an ordered type, below
  // structs and lists only.
  static bool has_zones(const StreamPlan& plan, uint32_t node);

  // Adds a stripe, which begins at file row `first_row`.
  void add_stripe(const Column& root, uint64_t first_row);
  std::vector<uint8_t> serialize() const;
  uint32_t node() const { return node_; }

 private:
  struct Bounds;
  void add_zone(const std::vector<const Column*>& path, uint64_t begin,
                uint64_t end);
  void put_bounds(const Bounds& b);

  uint32_t node_;
  uint32_t zone_rows_;
  std::vector<uint32_t> path_;  // child indexes from the root to the node
  KeyColumn key_;
  std::vector<uint64_t> end_rows_, nulls_, nans_, counts_;
  std::vector<uint8_t> min_bytes_, max_bytes_, max_exact_;
  std::vector<uint32_t> min_ends_, max_ends_;
};

}  // namespace nimble
