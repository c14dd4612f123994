// Reads vectors of a mapped file: rows of a column of fixed-size lists of
// numbers, in any order, each from its place in the file to its place in the
// result. What goes by blocks and by order would copy them twice.
#pragma once

#include <span>

#include "nimble/column/column.h"
#include "nimble/open/open_file.h"

namespace nimble {

// May take_vectors() read this node of the file?
bool is_vector(const OpenFile& file, uint32_t node);

// Appends rows to `out`, an empty column of the node's field: row i of the
// result is rows[places[i]], or rows[i] without places. Rows are ascending and
// below num_rows(). False, with nothing done, where a stripe that has one of
// them has nulls. Waits for other threads, unless `threads` is 1.
Result<bool> take_vectors(const OpenFile& file, uint32_t node,
                          std::span<const uint64_t> rows,
                          std::span<const uint64_t> places, uint32_t threads,
                          Column* out);

}  // namespace nimble
