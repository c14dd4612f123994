// Removes rows from a column in place. A scan uses this if reading a few extra
// rows between two ranges is faster than reading each range separately.
#pragma once

#include <span>

#include "nimble/base/row_range.h"
#include "nimble/base/status.h"
#include "nimble/column/column.h"

namespace nimble {

// Whether keep_rows() supports the field. It does not support runs and unions.
bool can_keep_rows(const Field& field);
// Checks that the column's string offsets, including 32-bit offsets, did not
// overflow. Returns kTooLarge if there are too many bytes.
Status fits_offsets(const Column& column);
// Removes the rows from `from` on that are not in `kept`. The ranges are
// relative to `from`.
// REQUIRES: the ranges are ascending and disjoint; can_keep_rows();
// fits_offsets() succeeded.
void keep_rows(uint64_t from, std::span<const RowRange> kept, Column* column);

}  // namespace nimble
