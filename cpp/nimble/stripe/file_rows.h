// Reads rows of several files into one result.
#pragma once

#include <span>

#include "nimble/stripe/row_reader.h"

namespace nimble {

// Rows in the order of the result. Repeats are allowed. Borrows both.
struct FileRows {
  std::span<const int64_t> files;  // index of the reader for each row
  std::span<const uint64_t> rows;
};

// Whether two fields have the same types and nullability.
bool have_same_types(const Field& a, const Field& b);

// Whether the readers' columns can be combined into one result. Dictionary
// codes cannot, because each file has its own dictionary.
bool have_one_form(std::span<const RowReader* const> readers);

// Appends rows to `out`. Each file is read once, in the order of its rows. May
// block on reads.
// REQUIRES: the first reader made `out`; have_one_form(readers).
Status take_file_rows(std::span<const RowReader* const> readers,
                      const FileRows& wanted, uint32_t threads, Column* out);

}  // namespace nimble
