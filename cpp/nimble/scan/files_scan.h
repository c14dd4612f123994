// FilesScan: rows of several files as Arrow batches, file by file. Tasks are
// cut from all files, so that threads that decode ahead do not wait at the end
// of each file.
#pragma once

#include <memory>
#include <vector>

#include "nimble/scan/batch_queue.h"
#include "nimble/stripe/row_reader.h"

namespace nimble {

// Rows to read of one file: disjoint ascending ranges.
struct FileRanges {
  std::shared_ptr<const RowReader> reader;
  std::vector<RowRange> ranges;
};

class FilesScan {
 public:
  // REQUIRES: at least one file; the readers have one form (file_rows.h);
  // `threads` >= 1, and 1 unless all files are mapped.
  // A batch has up to `batch_rows` rows of one file.
  FilesScan(std::vector<FileRanges> files, uint64_t batch_rows,
            uint32_t threads);

  const Field& schema() const { return schema_; }
  // The next batch, never empty; `out->release` is null at the end.
  Status next(ArrowArray* out);

 private:
  void begin();
  BatchQueue::Task claim();

  const Field schema_;
  std::vector<FileRanges> files_;
  size_t file_ = 0;         // whose rows are claimed next
  size_t range_ = 0;        // of its ranges
  uint64_t rows_left_ = 0;  // of the file, not yet claimed
  const uint64_t batch_rows_;
  const uint32_t threads_;
  uint32_t column_threads_ = 1;  // of one task
  double task_nanos_ = 0;        // a task takes about as long, or is one batch
  std::vector<double> row_nanos_;  // about how long a row of each file takes
  bool has_vectors_ = false;
  // Null until the first batch is wanted. Last: its threads use the rest.
  std::unique_ptr<BatchQueue> tasks_;
};

}  // namespace nimble
