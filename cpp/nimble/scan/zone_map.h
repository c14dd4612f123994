// Zone maps: exclude zones of rows by their smallest and largest values. If a
// zone map or a bound is missing, rows are not excluded.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "nimble/base/row_range.h"
#include "nimble/open/open_file.h"

namespace nimble {

// A condition on one column. Bounds are encoded keys of that column alone
// (ascending, nulls last): lower <= key < upper in byte order.
struct ZoneQuery {
  enum class Kind : uint8_t { kRange, kNull, kValid };
  Kind kind = Kind::kRange;
  std::optional<std::vector<uint8_t>> lower;
  std::optional<std::vector<uint8_t>> upper;
  bool nan_matches = false;  // rows whose value is NaN may match
};

// The values of one column in a set of rows. Bounds are encoded keys. They are
// empty if they are not known.
struct ZoneValues {
  std::vector<uint8_t> min;
  std::vector<uint8_t> max;
  bool is_max_exact = true;  // if false, `max` is a prefix of the largest key
  uint64_t nulls = 0;
  uint64_t nans = 0;
  uint64_t values = 0;  // including nulls and NaNs
};

// Whether rows with these values may satisfy `query`.
bool may_hold(const ZoneValues& zone, const ZoneQuery& query);

// Returns the values of the leaf `node` in the whole file, or nothing if the
// file has no zone map for the leaf. May block.
Result<std::optional<ZoneValues>> values_in_file(const OpenFile& file,
                                                 uint32_t node);

// Returns the file rows that may satisfy `query` on the leaf `node`, merged.
// These are all rows if the file has no zone map for the leaf. May block.
Result<std::vector<RowRange>> prune_rows(const OpenFile& file, uint32_t node,
                                         const ZoneQuery& query);

}  // namespace nimble
