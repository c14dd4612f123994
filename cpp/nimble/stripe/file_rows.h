// Rows of several files as one result.
#pragma once

#include <span>

#include "nimble/stripe/row_reader.h"

namespace nimble {

// Rows in the order in which they are wanted, repeats included.
struct FileRows {
  std::span<const int64_t> files;  // which of the readers has each
  std::span<const uint64_t> rows;
};

// Can what all of these read be one result? Codes of dictionaries cannot: each
// file has its own.
bool have_one_form(std::span<const RowReader* const> readers);

// Appends such rows to `out`, which the first reader made; the readers have
// one form. Each file is read once, in the order of its rows.
Status take_file_rows(std::span<const RowReader* const> readers,
                      const FileRows& wanted, uint32_t threads, Column* out);

}  // namespace nimble
