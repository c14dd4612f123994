// RowReader: reads rows of a file as Arrow columns, for one projection.
// Prepared once and used by any number of threads.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "nimble/base/row_range.h"
#include "nimble/open/open_file.h"
#include "nimble/stripe/stripe_reader.h"

namespace nimble {

// Rows in any order, including repeats, in the form that take_placed() needs.
struct PlacedRows {
  std::vector<uint64_t> rows;  // file rows, ascending and distinct
  // For each row of the result: its index in `rows`. If empty, 0, 1, 2, ...
  std::vector<uint64_t> places;
};
PlacedRows place_rows(std::span<const uint64_t> rows);

// A column to read, and its name in the result.
struct OutputColumn {
  ColumnPath path;
  std::string name;
};

class RowReader {
 public:
  // `columns` are in output order. Fails if a path does not exist.
  static Result<std::shared_ptr<const RowReader>> create(
      std::shared_ptr<const OpenFile> file,
      const std::vector<OutputColumn>& columns);
  static Result<std::shared_ptr<const RowReader>> create_all(
      std::shared_ptr<const OpenFile> file);

  const OpenFile& file() const { return *file_; }
  const std::shared_ptr<const OpenFile>& file_owner() const { return file_; }
  // The struct type of the results.
  const Field& schema() const { return schema_; }
  Column make_output() const { return Column(schema_, /*wide=*/false); }
  // The output columns, as passed to create().
  const OutputColumn& column(size_t i) const { return outputs_[i]; }
  // Node of each output column.
  uint32_t node(size_t column) const { return columns_[column].node; }
  bool is_nested(size_t column) const {
    return !columns_[column].parents.empty();
  }

  bool is_in_one_stripe(const RowRange& rows) const;
  // Number of rows in the stripe of `row`, from `row` on; at most `rows`.
  uint64_t rows_in_stripe(uint64_t row, uint64_t rows) const;
  // Whether a column has vectors (vector_reader.h).
  bool has_vectors() const { return has_vectors_; }

  // Estimated time to decode the given row.
  double decode_nanos(uint64_t row) const;

  // Appends the rows of disjoint ascending ranges. Up to `threads` threads
  // decode columns.
  Status read_ranges(std::span<const RowRange> ranges, uint32_t threads,
                     Column* out) const;
  // Exports rows from `begin` on as an array, which the caller releases. The
  // rows are in one stripe, and there are at most `most`, or fewer if they are
  // too large for one array. Returns their number.
  // REQUIRES: most > 0; begin + most <= num_rows().
  Result<uint64_t> read_batch(uint64_t begin, uint64_t most,
                              ArrowArray* out) const;
  // Reserves memory for `count` more rows of fixed-width columns.
  void reserve_rows(uint64_t count, Column* out) const;
  // Appends strictly ascending rows of the file.
  Status take_ascending(std::span<const uint64_t> rows, uint32_t threads,
                        Column* out) const;
  // Whether take_of_segment() can read all columns.
  bool has_flat_columns() const { return has_flat_columns_; }
  // Appends rows of one segment of a stripe: `rows` are strictly ascending and
  // relative to `first_row`, the file row of the segment's first value.
  // REQUIRES: has_flat_columns().
  Status take_of_segment(uint64_t first_row, std::span<const uint32_t> rows,
                         uint32_t threads, Column* out) const;
  // Appends rows in the given order, repeats included.
  Status take(std::span<const uint64_t> rows, uint32_t threads,
              Column* out) const;
  // Like take(), with the order already computed. Skips the columns that are
  // marked in `appended`, because the caller appends them. If `appended` is
  // empty, skips no column.
  Status take_placed(const PlacedRows& rows, std::span<const uint8_t> appended,
                     uint32_t threads, Column* out) const;

 private:
  struct Projected {
    uint32_t node;
    // Structs above a nested field: if one is null, the field is null too.
    std::vector<uint32_t> parents;
  };

  friend Status fetch_rows(std::span<const RowReader* const>,
                           std::span<const RowRange>);

  RowReader() = default;
  static std::shared_ptr<const RowReader> finish(
      std::shared_ptr<RowReader> reader, std::shared_ptr<const OpenFile> file);
  // read(i) -> Status appends `count` rows of the stripe to column i of `out`.
  // If `alone`, the rows are read one by one.
  template <class Read>
  Status each_column(const StripeReader& reader, uint64_t count, bool alone,
                     uint32_t threads, Column* out, const Read& read) const;
  Status read_column(const StripeReader& reader, size_t column,
                     const uint64_t* rows, uint64_t begin, uint64_t count,
                     Column* out) const;
  double decode_nanos(const StripeReader& reader) const;
  Status want(const StripeReader& reader, const uint64_t* rows, uint64_t begin,
              uint64_t count, std::span<const uint8_t> appended) const;
  // Prefetches the memory that ascending rows of a stripe need.
  void prefetch(const StripeReader& reader, std::span<const uint64_t> rows,
                std::span<const uint8_t> appended) const;
  // For a file that is not mapped: reads the bytes that read_ascending() needs
  // for the first of these rows in one round, and returns the number of these
  // rows. Does nothing for rows of a single stripe, which take one round
  // anyway.
  Result<size_t> fetch_ahead(std::span<const uint64_t> rows,
                             std::span<const uint8_t> appended) const;
  // Reads the columns for which it is faster to read single rows. Returns
  // `appended` with these columns marked as well.
  Result<std::vector<uint8_t>> take_wide(std::span<const uint64_t> rows,
                                         std::span<const uint64_t> places,
                                         std::span<const uint8_t> appended,
                                         uint32_t threads, Column* out) const;
  Status in_column(size_t column, Status status) const;
  // Strictly ascending rows.
  Status read_ascending(std::span<const uint64_t> rows,
                        std::span<const uint8_t> appended, uint32_t threads,
                        Column* out) const;

  std::shared_ptr<const OpenFile> file_;
  Field schema_;
  std::vector<OutputColumn> outputs_;
  std::vector<Projected> columns_;
  bool has_flat_columns_ = false;
  bool has_vectors_ = false;
};

// Appends the byte ranges of segments that read_ranges() needs for these rows,
// if the columns are not nested. Ranges ascend within a stripe, and are joined
// if the gap between them is at most `gap` bytes. Also for mapped files.
// REQUIRES: the rows are disjoint and ascending.
Status plan_bytes(const RowReader& reader, std::span<const RowRange> rows,
                  uint64_t gap, std::vector<ByteRange>* out);

// For a file that is not mapped: reads the bytes that read_ranges() or take()
// need for these rows into the file's range cache. Takes one round if the bytes
// fit in half of the cache.
// REQUIRES: all readers belong to one file; the ranges are disjoint and
// ascending.
Status fetch_rows(std::span<const RowReader* const> readers,
                  std::span<const RowRange> ranges);

}  // namespace nimble
