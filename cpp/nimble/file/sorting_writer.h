// SortingWriter: rows in any order to a file in cluster key order. Rows are
// collected until they exceed the memory budget, sorted by their encoded keys
// (equal keys keep their input order), and spilled as a file of their own;
// finish() merges the spilled runs.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nimble/file/file_writer.h"

namespace nimble {

class SortingWriter {
 public:
  // `spill_path` gives a new path for a run; runs are deleted when done with.
  SortingWriter(std::unique_ptr<FileWriter> writer,
                std::function<std::string()> spill_path);
  ~SortingWriter();
  SortingWriter(const SortingWriter&) = delete;
  SortingWriter& operator=(const SortingWriter&) = delete;

  const Field& schema() const { return writer_->schema(); }
  Status append(const ArrayView& root);
  Result<WriteSummary> finish();
  size_t num_runs() const { return run_paths_.size(); }

 private:
  Status spill();
  uint64_t used_bytes() const;
  uint64_t merge_rows() const;
  Status merge_runs();

  std::unique_ptr<FileWriter> writer_;
  std::function<std::string()> spill_path_;
  Column rows_;
  KeyBuffer keys_;
  std::vector<std::string> run_paths_;
  uint64_t spilled_bytes_ = 0;
  uint64_t spilled_rows_ = 0;
};

}  // namespace nimble
