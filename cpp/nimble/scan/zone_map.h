// ZoneMap: proves that zones of rows hold nothing of interest. The proof is
// three-valued: what is missing (no zone map, no bound) never drops a row.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "nimble/base/row_range.h"
#include "nimble/open/open_file.h"

namespace nimble {

// What a filter says of one column, as encoded keys of that column alone
// (ascending, nulls last): lower <= key < upper in byte order.
struct ZoneQuery {
  enum class Kind : uint8_t { kRange, kNull, kValid };
  Kind kind = Kind::kRange;
  std::optional<std::vector<uint8_t>> lower;
  std::optional<std::vector<uint8_t>> upper;
  bool nan_matches = false;  // rows whose value is NaN may match
};

// File rows that may satisfy `query` on the leaf `node`, merged. All rows
// where the file keeps no zone map of it.
Result<std::vector<RowRange>> prune_rows(const OpenFile& file, uint32_t node,
                                         const ZoneQuery& query);

}  // namespace nimble
