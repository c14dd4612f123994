// RowWriter: interface of classes that write rows to a file. FileWriter needs
// rows in file order, and SortingWriter accepts any order.
//
//   ( append* finish ) | (destroyed early: its files are removed)
//
// After a call has failed, further calls fail (write_state.h). Calls block
// while bytes are written.
#pragma once

#include <string>
#include <vector>

#include "nimble/types/array_view.h"
#include "nimble/write/write_state.h"

namespace nimble {

// Facts about a finished file.
struct WriteSummary {
  uint64_t num_rows = 0;
  uint64_t size_bytes = 0;
  uint64_t index_bytes = 0;
  uint64_t num_stripes = 0;
  uint64_t num_groups = 0;
  double index_seconds = 0;  // spent on secondary indexes
  // For each top-level column: its encoded bytes, and the encoding of its first
  // segment of values.
  std::vector<uint64_t> column_bytes;
  std::vector<std::string> column_encodings;
};

class RowWriter {
 public:
  virtual ~RowWriter() = default;

  // Appends all rows of `root`, a struct with the schema's columns.
  Status append(const ArrayView& root) {
    return state_.run([&] { return take_rows(root); });
  }
  // Writes pending data and the footer, and makes the file visible.
  Result<WriteSummary> finish() {
    WriteSummary summary;
    NIMBLE_RETURN_IF_ERROR(
        state_.finish([&] { return finish_file(&summary); }));
    return summary;
  }

 protected:
  virtual Status take_rows(const ArrayView& root) = 0;
  virtual Status finish_file(WriteSummary* summary) = 0;

  WriteState state_;
};

}  // namespace nimble
