// VectorStore: the vectors of an index while the index is built. They are in
// memory or, above a limit, in a temporary file. Rows that the index leaves out
// are not stored.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nimble/base/bitmap.h"
#include "nimble/index/vector/vector_elements.h"
#include "nimble/io/spill_file.h"

namespace nimble {

class VectorStore {
 public:
  VectorStore(VectorMetric metric, const VectorType& type,
              uint64_t memory_bytes, std::string spill_directory)
      : metric_(metric),
        type_(type),
        memory_bytes_(memory_bytes),
        spill_directory_(std::move(spill_directory)) {}

  // Appends the file's next row. `row` is null for a row without a vector.
  Status add(const uint8_t* row);

  const VectorType& type() const { return type_; }
  uint64_t size() const { return size_; }  // of stored rows
  uint64_t file_rows() const { return file_rows_; }
  // Whether the length of a row is not a normal float. Such a row cannot be
  // coded.
  bool has_long_rows() const { return has_long_rows_; }
  // The file row of stored row i.
  uint64_t file_row(uint64_t i) const;
  // Reads stored rows. Thread-safe. May block.
  Status read(uint64_t first, uint64_t count, std::vector<uint8_t>* out) const;

 private:
  const VectorMetric metric_;
  const VectorType type_;
  const uint64_t memory_bytes_;
  const std::string spill_directory_;
  uint64_t size_ = 0;
  uint64_t file_rows_ = 0;
  bool has_long_rows_ = false;
  // Stored row `first` is file row `file_row`. The stored rows after it, up to
  // the next run, are the following file rows.
  struct Run {
    uint64_t first;
    uint64_t file_row;
  };
  std::vector<Run> runs_;
  std::vector<uint8_t> bytes_;  // after those in the file
  std::unique_ptr<SpillFile> spilled_;
};

}  // namespace nimble
