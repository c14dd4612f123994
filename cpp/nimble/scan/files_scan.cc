#include "nimble/scan/files_scan.h"

#include <algorithm>
#include <utility>

#include "nimble/scan/batch_scan.h"
#include "nimble/threads/threads.h"

namespace nimble {

FilesScan::FilesScan(std::vector<FileRanges> files, uint64_t batch_rows,
                     uint32_t threads)
    : schema_(files.front().reader->schema()),
      files_(std::move(files)),
      batch_rows_(std::max<uint64_t>(1, batch_rows)),
      threads_(threads) {}

void FilesScan::begin() {
  // Handing a task to another thread costs some microseconds.
  constexpr double kTaskNanos = 1e6;
  uint64_t rows = 0;
  double nanos = 0;
  row_nanos_.resize(files_.size());
  for (size_t i = 0; i < files_.size(); ++i) {
    FileRanges& file = files_[i];
    std::erase_if(file.ranges, [](const RowRange& r) { return r.empty(); });
    const uint64_t n = count_rows(file.ranges);
    if (i == 0) rows_left_ = n;
    rows += n;
    if (threads_ == 1 || n == 0) continue;
    row_nanos_[i] = file.reader->decode_nanos(file.ranges.front().begin);
    nanos += static_cast<double>(n) * row_nanos_[i];
  }
  const uint32_t threads = threads_worth(nanos, threads_);
  const bool is_one_task = rows <= batch_rows_;
  if (threads > 1) task_nanos_ = std::min(kTaskNanos, nanos / (8 * threads));
  column_threads_ = is_one_task ? threads : 1;
  has_vectors_ = has_vectors(*files_.front().reader);
  tasks_ = std::make_unique<BatchQueue>([this] { return claim(); },
                                        is_one_task ? 1 : threads);
}

Status FilesScan::next(ArrowArray* out) {
  if (tasks_ == nullptr) begin();
  return tasks_->next(out);
}

BatchQueue::Task FilesScan::claim() {
  std::vector<FileRanges> parts;  // a batch each
  double nanos = 0;
  while (file_ < files_.size() && (parts.empty() || nanos < task_nanos_)) {
    FileRanges& file = files_[file_];
    if (rows_left_ == 0) {
      file = {};  // so that it may be closed
      range_ = 0;
      if (++file_ < files_.size()) {
        rows_left_ = count_rows(files_[file_].ranges);
      }
      continue;
    }
    uint64_t rows = std::min(batch_rows_, rows_left_);
    if (has_vectors_) {
      rows =
          rows_in_stripe(file.reader->file(), file.ranges[range_].begin, rows);
    }
    parts.push_back({file.reader, take_front(&file.ranges, &range_, rows)});
    rows_left_ -= rows;
    nanos += static_cast<double>(rows) * row_nanos_[file_];
  }
  if (parts.empty()) return {};
  return [this, parts = std::move(parts)] {
    Batches out;
    for (const FileRanges& part : parts) {
      out.status =
          read_batches(*part.reader, part.ranges, column_threads_, &out);
      if (!out.status) break;
    }
    return out;
  };
}

}  // namespace nimble
