// Scan: the rows of one or more files that pass a filter, as Arrow batches in
// order. This is the only loop over many rows. It decides how rows are read:
//
// * whole ranges without a filter; windows of one segment with a filter;
// * ahead on other threads, if that costs less than it saves: several batches
//   at a time, or the columns of a single batch;
// * tasks across files, so that threads do not wait at the end of each file;
// * files that are not mapped: a small file is a single task, because its reads
//   wait. The caller reads a large file, batch by batch.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "nimble/scan/selection.h"
#include "nimble/threads/read_ahead.h"
#include "nimble/types/arrow_c.h"

namespace nimble {

struct ScanOptions {
  uint64_t batch_rows = 65536;  // the most rows of a batch; at least 1
  uint32_t threads = 1;         // at least 1
  // The caller takes at most this many rows, so the scan need not read more.
  uint64_t limit = UINT64_MAX;
};

class Scan {
 public:
  // Fails if there are no parts, or if the outputs of two parts do not have
  // the same types. Reads nothing.
  static Result<std::unique_ptr<Scan>> create(std::vector<ScanPart> parts,
                                              const ScanOptions& options);
  // Waits for running tasks.
  // REQUIRES: the GIL is not held.
  ~Scan() = default;

  // The struct type of all batches.
  const Field& schema() const { return schema_; }
  // Returns the next batch, which has rows of one file and is not empty.
  // `out->release` is null at the end. A failure ends the scan, after the
  // batches before it. May wait for other threads.
  // REQUIRES: the GIL is not held.
  Status next(ArrowArray* out);
  // Returns the number of rows that pass. Call it instead of next(). Ignores
  // the limit. May wait for other threads.
  // REQUIRES: the GIL is not held.
  Result<uint64_t> count();

 private:
  // The result of one task. Owns its arrays.
  struct Batches {
    Status status;
    std::vector<ArrowArray> arrays;
    uint64_t rows = 0;

    Batches() = default;
    Batches(Batches&& o) noexcept;
    Batches& operator=(Batches&& o) noexcept;
    ~Batches();
  };
  using Tasks = ReadAhead<Batches>;

  struct Part : ScanPart {
    Part(ScanPart part, SelectionReader reader)
        : ScanPart(std::move(part)), selected(std::move(reader)) {}

    // Number of rows in a slice that is read on its own.
    uint64_t slice_rows(uint64_t batch_rows) const;

    SelectionReader selected;
    uint64_t rows = 0;      // in `ranges`
    double row_nanos = 0;   // approximate time to read a row
    bool is_whole = false;  // read by one task
  };
  // A unit of reading: windows if the part selects rows, else ranges.
  struct Slice {
    std::shared_ptr<const Part> part;
    std::vector<FilterWindow> windows;
    std::vector<RowRange> ranges;
    uint64_t rows = 0;
  };

  Scan(std::vector<std::shared_ptr<Part>> parts, const ScanOptions& options);

  // Begins the next parts that can share threads.
  void begin_group();
  bool is_read_alone(const Part& part) const;
  // Stores the next task's result in ready_. Returns false at the end.
  Result<bool> advance();
  // claim() and next_slice() are called by one thread at a time.
  Tasks::Task claim();
  Result<Slice> next_slice();  // without rows at the end of the group
  Status read(const Slice& slice, Batches* out) const;

  const ScanOptions options_;
  const Field schema_;
  bool counts_ = false;
  std::vector<std::shared_ptr<Part>> parts_;  // null after the last slice

  // The group that is read: parts [part_, group_end_).
  size_t part_ = 0;
  size_t group_end_ = 0;
  size_t range_ = 0;                           // the next one of the part
  std::optional<RowFilter::Windows> windows_;  // of the part, if it selects
  uint32_t column_threads_ = 1;                // of one task
  // Approximate time of a task. A single slice may take longer.
  double task_nanos_ = 0;

  bool ended_ = false;
  Batches ready_;
  size_t next_ready_ = 0;
  // Null between groups. Declared last, because its threads use the other
  // members.
  std::unique_ptr<Tasks> tasks_;
};

}  // namespace nimble
