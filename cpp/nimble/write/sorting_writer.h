// SortingWriter: rows in any order to a file in cluster key order; equal keys
// keep their input order. What exceeds the memory budget lies on disk until
// finish() (external_sorter.h).
#pragma once

#include <memory>

#include "nimble/io/external_sorter.h"
#include "nimble/write/file_writer.h"
#include "nimble/write/sorted_rows.h"

namespace nimble {

// What a SortingWriter's file is written with: stripes that are no larger than
// an eighth of the memory for sorting: encoding one takes several times its
// size.
WriterOptions sorting_options(WriterOptions options);

class SortingWriter final : public RowWriter {
 public:
  // Spilled rows go to the writer's spill directory, as files without a name.
  explicit SortingWriter(std::unique_ptr<FileWriter> writer);

  // Rows that went to disk, those of every pass counted.
  uint64_t num_spilled() const { return sorter_.num_spilled(); }

 protected:
  Status take_rows(const ArrayView& root) override;
  Status finish_file(WriteSummary* summary) override;

 private:
  std::unique_ptr<FileWriter> writer_;
  ExternalSorter<SortedRows> sorter_;
  int64_t step_;  // rows to take before the sorter is asked whether it is full
};

}  // namespace nimble
