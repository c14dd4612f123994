// TableRows: reads rows of a served table as columns, for one projection. The
// readers of the files are made once for all parts of a request.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "nimble/serve/snapshot/served_table.h"
#include "nimble/stripe/row_reader.h"

namespace nimble {

// Movable. Borrows the table. Not thread-safe.
class TableRows {
 public:
  // Opens the files of `rows`. May block.
  static Result<TableRows> create(const ServedTable& table,
                                  std::span<const FileRange> rows,
                                  std::span<const uint32_t> columns);

  // A struct with the columns. They have dictionaries if the files have them.
  const Field& schema() const {
    return form_ != nullptr ? *form_ : readers_.front()->schema();
  }
  // The column borrows from this object.
  Column make_output() const { return Column(schema(), /*wide=*/false); }
  // Appends rows in the given order. `reverse`: the last row of each range is
  // first.
  // REQUIRES: create() was given ranges of the same files.
  Status append(std::span<const FileRange> rows, bool reverse,
                Column* out) const;

 private:
  TableRows(const ServedTable& table, std::span<const uint32_t> columns)
      : table_(&table), columns_(columns.begin(), columns.end()) {}

  size_t place_of(uint32_t file) const;
  Status append_long(std::span<const FileRange> rows, Column* out) const;
  Status append_converted_rows(std::span<const RowAddress> rows,
                               Column* out) const;

  const ServedTable* table_;
  std::vector<uint32_t> columns_;
  std::vector<uint32_t> numbers_;  // of the files, ascending
  // A reader for each file. They have one form, unless form_ is set.
  std::vector<std::shared_ptr<const RowReader>> readers_;
  std::vector<const RowReader*> pointers_;
  // Set if rows are converted to the types of the table.
  std::unique_ptr<const Field> form_;
};

}  // namespace nimble
