// BatchScan: the rows of a scan as Arrow batches, in order. With several
// threads each makes whole batches, ahead of the consumer; columns are split
// among threads only where there is one batch. Scans that cost less than
// threads do are made by the caller alone.
#pragma once

#include <memory>
#include <vector>

#include "nimble/scan/row_filter.h"
#include "nimble/stripe/row_reader.h"
#include "nimble/threads/read_ahead.h"

namespace nimble {

// What one task of a scan gives. Owns its arrays until they are taken.
struct Batches {
  Status status;
  std::vector<ArrowArray> arrays;

  Batches() = default;
  Batches(Batches&& o) noexcept;
  Batches& operator=(Batches&& o) noexcept;
  ~Batches();
};

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
  using Task = ReadAhead<Batches>::Task;
  void begin();
  Task claim_ranges();
  Task claim_windows();
  Status read_ranges(const std::vector<RowRange>& part, Batches* out) const;
  Status read_rows(std::span<const uint64_t> rows, Batches* out) const;

  std::shared_ptr<const RowReader> reader_;
  std::shared_ptr<const RowFilter> filter_;
  std::vector<RowRange> ranges_;
  size_t at_ = 0;
  std::unique_ptr<RowFilter::Windows> windows_;
  uint64_t batch_rows_;
  uint32_t threads_;
  uint32_t column_threads_ = 1;  // of one task
  bool has_vectors_ = false;
  bool ended_ = false;
  Batches ready_;
  size_t next_ready_ = 0;
  // Null until the first batch is wanted. Last: its threads use the rest.
  std::unique_ptr<ReadAhead<Batches>> tasks_;
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
