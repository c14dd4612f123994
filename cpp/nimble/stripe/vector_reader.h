// Reads vectors of a mapped file: rows of a column of fixed-size lists of
// numbers, in any order. Each vector is copied directly from the file to the
// result. Reading by blocks would copy it twice.
#pragma once

#include <span>

#include "nimble/column/column.h"
#include "nimble/open/open_file.h"

namespace nimble {

// Whether take_vectors() supports this node of the file.
bool is_vector(const OpenFile& file, uint32_t node);

// Appends rows to `out`: row i of the result is rows[places[i]], or rows[i] if
// `places` is empty. Returns false and does nothing if a stripe with one of the
// rows has nulls. Waits for other threads, unless `threads` is 1.
// REQUIRES: is_vector(file, node); `out` is an empty column of the node's
// field; `rows` are ascending and below num_rows().
Result<bool> take_vectors(const OpenFile& file, uint32_t node,
                          std::span<const uint64_t> rows,
                          std::span<const uint64_t> places, uint32_t threads,
                          Column* out);

}  // namespace nimble
