// Zone maps: exclude zones of rows by the smallest and largest values in them.
// A missing zone map or bound never excludes a row.
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

// Returns the file rows that may satisfy `query` on the leaf `node`, merged.
// These are all rows if the file has no zone map for the leaf. May block.
Result<std::vector<RowRange>> prune_rows(const OpenFile& file, uint32_t node,
                                         const ZoneQuery& query);

}  // namespace nimble
