// BatchScan: the rows of a scan as Arrow batches, in order. With several
// threads each makes whole batches, ahead of the consumer; columns are split
// among threads only where there is one batch. Scans that cost less than
// threads do are made by the caller alone.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "nimble/scan/batch_queue.h"
#include "nimble/scan/row_filter.h"
#include "nimble/stripe/row_reader.h"

namespace nimble {

// Appends the rows of disjoint ascending ranges to `out` as one batch, or as
// several if they are too much for one. Up to `threads` threads decode columns.
Status read_batches(const RowReader& reader,
                    const std::vector<RowRange>& ranges, uint32_t threads,
                    Batches* out);

// Cuts up to `rows` rows off the front of ranges[*at ...], and returns them.
std::vector<RowRange> take_front(std::vector<RowRange>* ranges, size_t* at,
                                 uint64_t rows);

// Whether some column has vectors. A batch of them that spans two stripes is a
// large copy, so scans end batches where stripes end.
bool has_vectors(const RowReader& reader);
// How many of the rows from `row` on, at most `rows`, are in its stripe.
uint64_t rows_in_stripe(const OpenFile& file, uint64_t row, uint64_t rows);

class BatchScan {
 public:
  // Rows of disjoint ascending ranges, up to `batch_rows` a batch; with a
  // filter only those that pass. `threads` >= 1.
  BatchScan(std::shared_ptr<const RowReader> reader,
            std::shared_ptr<const RowFilter> filter,
            std::vector<RowRange> ranges, uint64_t batch_rows,
            uint32_t threads);

  const Field& schema() const { return reader_->schema(); }
  // The next batch; `out->release` is null at the end. Batches of a filter are
  // never empty.
  Status next(ArrowArray* out);

 private:
  using Task = BatchQueue::Task;
  void begin();
  Task claim_ranges();
  Task claim_windows();
  // A place among the rows of some windows.
  struct Place {
    size_t window = 0;
    size_t row = 0;
  };
  // The next `count` rows from a place on, which moves behind them, as one
  // batch, or as several if they are too much for one.
  Status read_passing(std::span<const PassingRows> windows, uint64_t count,
                      Place* at, Batches* out) const;
  Status append_passing(std::span<const PassingRows> windows, uint64_t count,
                        Place* at, Column* out) const;

  std::shared_ptr<const RowReader> reader_;
  std::shared_ptr<const RowFilter> filter_;
  std::vector<RowRange> ranges_;
  size_t at_ = 0;
  std::unique_ptr<RowFilter::Windows> windows_;
  uint64_t batch_rows_;
  uint32_t threads_;
  uint32_t column_threads_ = 1;  // of one task
  bool has_vectors_ = false;
  // Null until the first batch is wanted. Last: its threads use the rest.
  std::unique_ptr<BatchQueue> tasks_;
};

// Rows that pass, without reading anything else.
Result<uint64_t> count_rows_that_pass(const RowFilter& filter,
                                      std::vector<RowRange> ranges,
                                      uint32_t threads);
// The rows themselves, ascending.
Result<std::vector<uint64_t>> rows_that_pass(const RowFilter& filter,
                                             std::vector<RowRange> ranges,
                                             uint32_t threads);

}  // namespace nimble
