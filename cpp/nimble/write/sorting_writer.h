// SortingWriter: rows in any order to a file in cluster key order. Rows are
// collected until they exceed the memory budget, sorted by their encoded keys
// (equal keys keep their input order), and spilled as a file of their own;
// finish() merges the spilled runs.
#pragma once

#include <memory>
#include <vector>

#include "nimble/io/spill_file.h"
#include "nimble/write/file_writer.h"

namespace nimble {

class SortingWriter final : public RowWriter {
 public:
  // Runs go to the writer's spill directory, as files without a name.
  explicit SortingWriter(std::unique_ptr<FileWriter> writer);

  size_t num_runs() const { return runs_.size(); }

 protected:
  Status take_rows(const ArrayView& root) override;
  Status finish_file(WriteSummary* summary) override;

 private:
  Status spill();
  uint64_t used_bytes() const;
  uint64_t merge_rows() const;
  Status merge_runs();

  std::unique_ptr<FileWriter> writer_;
  Column rows_;
  KeyBuffer keys_;
  std::vector<std::shared_ptr<const SpillFile>> runs_;
  uint64_t spilled_bytes_ = 0;
  uint64_t spilled_rows_ = 0;
};

}  // namespace nimble
