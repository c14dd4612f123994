// Leaving rows out of a column, in place: a scan reads over the few rows
// between two ranges sooner than it reads each range by itself.
#pragma once

#include <span>

#include "nimble/base/row_range.h"
#include "nimble/base/status.h"
#include "nimble/column/column.h"

namespace nimble {

// Not from runs and unions.
bool can_keep_rows(const Field& field);
// Whether the offsets of strings, narrow ones too, say where each string is;
// kTooLarge where there are more bytes than that.
Status fits_offsets(const Column& column);
// Of the rows from `from` on leaves those of ascending, disjoint ranges, which
// count from `from`. Offsets fit.
void keep_rows(uint64_t from, std::span<const RowRange> kept, Column* column);

}  // namespace nimble
