// SortingWriter: writes rows that arrive in any order to a file in cluster key
// order. Equal keys keep their input order. Rows that do not fit in the memory
// budget are on disk until finish() (external_sorter.h). Calls may block on
// reads and writes.
#pragma once

#include <memory>

#include "nimble/io/external_sorter.h"
#include "nimble/write/file_writer.h"
#include "nimble/write/sorted_rows.h"

namespace nimble {

// The options for a SortingWriter's FileWriter. Stripes are limited to an
// eighth of the sort memory, because encoding a stripe takes several times its
// size.
WriterOptions sorting_options(WriterOptions options);

class SortingWriter final : public RowWriter {
 public:
  // Spills rows to unnamed files in the writer's spill directory.
  explicit SortingWriter(std::unique_ptr<FileWriter> writer);

  // Number of rows written to disk, counting every merge pass.
  uint64_t num_spilled() const { return sorter_.num_spilled(); }

 protected:
  Status take_rows(const ArrayView& root) override;
  Status finish_file(WriteSummary* summary) override;

 private:
  std::unique_ptr<FileWriter> writer_;
  ExternalSorter<SortedRows> sorter_;
  int64_t step_;  // rows to add before the next check
};

}  // namespace nimble
