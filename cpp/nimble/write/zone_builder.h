// ZoneBuilder: smallest and largest value, nulls and NaNs of one leaf column
// for every zone of rows, collected while stripes are written.
// docs/format/zone_maps.md.
#pragma once

#include <vector>

#include "nimble/column/column.h"
#include "nimble/format/stream_plan.h"
#include "nimble/key/key_column.h"

namespace nimble {

// Bounds longer than this are cut.
inline constexpr size_t kMaxZoneBound = 64;

class ZoneBuilder {
 public:
  // `node` is a leaf whose values have an order; see has_zones().
  ZoneBuilder(const StreamPlan& plan, uint32_t node, uint32_t zone_rows);

  // Is `node` a leaf that zone maps are kept for: an ordered type, reached
  // from the root through structs and lists only.
  static bool has_zones(const StreamPlan& plan, uint32_t node);

  // One more stripe, which begins at file row `first_row`.
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
  std::vector<uint32_t> path_;  // child numbers from the root to the node
  KeyColumn key_;
  std::vector<uint64_t> end_rows_, nulls_, nans_, counts_;
  std::vector<uint8_t> min_bytes_, max_bytes_, max_exact_;
  std::vector<uint32_t> min_ends_, max_ends_;
};

}  // namespace nimble
