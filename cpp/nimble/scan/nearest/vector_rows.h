// VectorRows: the stored numbers of single vectors of a file. In a mapped file,
// plain values are used in place. Otherwise rows are read together, in one
// round. Not thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "nimble/index/vector/vector_elements.h"
#include "nimble/stripe/row_reader.h"
#include "nimble/stripe/value_reader.h"

namespace nimble {

class VectorRows {
 public:
  // `reader` has one column, of vectors. `may_have_nulls` is false if no vector
  // and none of its numbers is null.
  VectorRows(std::shared_ptr<const RowReader> reader, const VectorType& type,
             bool may_have_nulls = true);

  // Whether row() returns only rows that were prepared.
  bool needs_rows() const { return !is_mapped_ || may_have_nulls_; }

  // Starts reading the vectors of these rows into memory. Does nothing if the
  // file is not mapped. May block on a read of metadata.
  Status will_need(std::span<const uint64_t> rows);
  // Prepares row() for these rows, ascending. May block on a read.
  Status prepare(std::span<const uint64_t> rows);
  // The numbers of a prepared row, or null if the vector or one of its numbers
  // is null. Valid until the next call.
  Result<const uint8_t*> row(uint64_t row);
  // Stores the numbers of a prepared row, valid until prepare(). Stores null if
  // row() must be called, and prefetches what it will read.
  Status locate(uint64_t row, const uint8_t** values);
  // Calls visit(first row, numbers, count) for consecutive rows, until all rows
  // of the ranges are visited that are not null.
  using Visit = std::function<void(uint64_t, const uint8_t*, uint64_t)>;
  Status visit(std::span<const RowRange> ranges, const Visit& visit);

 private:
  // Reads all rows at once, in one round.
  Status visit_read(std::span<const RowRange> ranges, const Visit& visit);
  bool has_nulls() const;
  // Finds the first number of a row of at_'s stripe. Lowers *count to the
  // number of rows that the stripe has from this one on.
  Status find(uint64_t row, StreamValue* first, uint64_t* count) const;
  // Returns the vectors of consecutive rows, the first one at `first`, if they
  // can be used in place; else null. Lowers *count to the rows, at least 1.
  Result<const uint8_t*> in_place(const StreamValue& first,
                                  uint64_t* count) const;
  // Returns the numbers of consecutive rows of at_'s stripe, from `row` on.
  // Lowers *count to the number of rows, at least 1.
  Result<const uint8_t*> mapped(uint64_t row, uint64_t* count);
  Status move_to(uint64_t row);
  const uint8_t* in_column(const Column& read, uint64_t i) const;

  const std::shared_ptr<const RowReader> reader_;
  const VectorType type_;
  const bool is_mapped_;
  const bool may_have_nulls_;
  uint32_t validity_ = kNoStream, item_validity_ = kNoStream;
  uint32_t values_ = kNoStream;
  RowLocation at_;
  bool is_located_ = false;
  AlignedBuffer decoded_;
  // Rows that were read together.
  std::vector<uint64_t> read_rows_;
  std::optional<Column> read_;
};

}  // namespace nimble
