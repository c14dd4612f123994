// Selection: the rows of a file that pass a filter, before their columns are
// read.
//
// A filter has up to two parts. RowFilter tests encoded values. RowTest is a
// function of the caller that tests decoded columns.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "nimble/column/column.h"
#include "nimble/scan/row_filter.h"
#include "nimble/stripe/row_reader.h"

namespace nimble {

// Sets bit i of `mask` if row i of `inputs` passes. All bits are 0 when it is
// called. Any number of threads may call it at the same time. May block.
using RowTest = std::function<Status(
    const std::shared_ptr<const Column>& inputs, std::span<uint64_t> mask)>;

// Says what to read from one file.
struct ScanPart {
  std::shared_ptr<const RowReader> output;
  std::vector<RowRange> ranges;             // disjoint and ascending
  std::shared_ptr<const RowFilter> filter;  // of the same file, or null
  std::shared_ptr<const RowReader> inputs;  // columns for `test`, or null
  RowTest test;

  bool selects() const { return filter != nullptr || inputs != nullptr; }
};

struct Selection {
  std::vector<PassingRows> windows;
  uint64_t count = 0;
  // The columns that the test read, and in `places` the position of each
  // passing row in them. Null if there was no test.
  std::shared_ptr<const Column> inputs;
  std::vector<uint64_t> places;
};

// Appends the passing rows of the windows, as one selection. If the input
// columns are too large for one Arrow array, appends several. May block.
Status select_rows(const ScanPart& part, std::span<const FilterWindow> windows,
                   std::vector<Selection>* out);
// Returns the number of passing rows. Decodes nothing if the part does not have
// a test.
Result<uint64_t> count_passing(const ScanPart& part,
                               std::span<const FilterWindow> windows);

// Reads the output columns of selected rows. Columns that the test has read are
// copied from there. Thread-safe.
class SelectionReader {
 public:
  static Result<SelectionReader> create(const ScanPart& part);

  // Appends selected rows [begin, end) as one batch, or as several if the rows
  // are too large for one. Up to `threads` threads decode columns. May block.
  Status read(const Selection& selection, uint64_t begin, uint64_t end,
              uint32_t threads, std::vector<ArrowArray>* out) const;

 private:
  Status fill(const Selection& selection, uint64_t begin, uint64_t end,
              uint32_t threads, Column* out) const;

  // For each output column: its index among the input columns, or kNotRead.
  static constexpr size_t kNotRead = SIZE_MAX;
  std::vector<size_t> copied_from_;
  std::shared_ptr<const RowReader> output_;
  std::shared_ptr<const RowReader> rest_;  // reads the other columns
};

}  // namespace nimble
