// Writes rows of a served table as an Arrow IPC stream.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nimble/serve/snapshot/served_table.h"

namespace nimble {

struct ArrowRequest {
  std::vector<uint32_t> columns;
  // Name of an additional first column with `positions`. If empty, it is not
  // added.
  std::string probe;
  // True if rows may be missing: all columns are then nullable.
  bool may_miss = false;
  uint64_t max_bytes = UINT64_MAX;
};

// Appends the schema alone.
Status append_arrow_schema(const ServedTable& table,
                           std::span<const uint32_t> columns, std::string* out);
// Appends rows in the order of a read. `positions` has a number for each row.
// Fails with kTooLarge above request.max_bytes, before all rows are decoded.
Status append_arrow_rows(const ServedTable& table, const ArrowRequest& request,
                         std::span<const FileRange> rows, bool reverse,
                         std::span<const int64_t> positions, std::string* out);
// Appends one row for each place: row places[i] of `rows`, or a row of nulls
// if places[i] is SIZE_MAX. `rows` has single rows.
Status append_arrow_places(const ServedTable& table,
                           const ArrowRequest& request,
                           std::span<const FileRange> rows,
                           std::span<const size_t> places, std::string* out);

}  // namespace nimble
