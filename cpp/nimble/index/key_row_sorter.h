// KeyRowSorter: encoded keys and their rows in the order of keys, within a
// memory budget. Keys are collected in row order; what exceeds the budget is
// sorted and spilled as a run, and finish() merges the runs.
//
//   add* finish
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nimble/io/spill_file.h"
#include "nimble/key/key_buffer.h"

namespace nimble {

class KeyRowSorter {
 public:
  // `directory` is where runs go: see SpillFile.
  KeyRowSorter(uint64_t memory_bytes, std::string directory);

  // Keys [begin, end) belong to the rows after those of the last call.
  Status add(const KeyBuffer& keys, size_t begin, size_t end);
  uint64_t num_rows() const { return run_first_row_ + keys_.size(); }

  // Gives `take` the sorted entries, in pieces: each key with its row behind
  // it, big-endian, in `row_width` bytes; of equal keys the lower row first.
  using Take = std::function<Status(const KeyBuffer& entries)>;
  Status finish(uint32_t row_width, const Take& take);

 private:
  class Run;

  bool full() const;
  Status spill();
  Status take_sorted(uint32_t row_width, const Take& take);
  Status merge(uint32_t row_width, const Take& take);

  const uint64_t memory_bytes_;
  const std::string directory_;
  KeyBuffer keys_;              // of the current run
  uint64_t run_first_row_ = 0;  // row of keys_[0]
  std::unique_ptr<SpillFile> file_;
  std::vector<uint64_t> run_begins_;  // in file_
  ByteBuffer block_;
};

}  // namespace nimble
