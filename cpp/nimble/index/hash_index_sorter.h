// HashRowSorter: pairs of hash and row in the order of hashes, within a memory
// budget. Pairs are collected in row order; what exceeds the budget is sorted
// and spilled as a run, and finish() merges the runs.
//
//   add* finish
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nimble/io/spill_file.h"

namespace nimble {

struct HashRow {
  uint64_t hash;
  uint64_t row;
};

class HashRowSorter {
 public:
  // `directory` is where runs go: see SpillFile.
  HashRowSorter(uint64_t memory_bytes, std::string directory);

  // Rows ascend from call to call.
  Status add(HashRow pair) {
    if (pairs_.size() == pairs_.capacity()) NIMBLE_RETURN_IF_ERROR(make_room());
    pairs_.push_back(pair);
    return Status::ok();
  }
  uint64_t size() const { return spilled_ + pairs_.size(); }

  // Gives `take` all pairs, ascending by hash and, where hashes are equal, by
  // row, in pieces of any size.
  using Take = std::function<Status(std::span<const HashRow>)>;
  Status finish(const Take& take);

 private:
  struct Run;

  Status make_room();
  Status spill();
  Status merge(const Take& take);

  const uint64_t memory_bytes_;
  const std::string directory_;
  const size_t run_pairs_;
  std::vector<HashRow> pairs_;
  std::vector<HashRow> scratch_;
  std::unique_ptr<SpillFile> file_;
  std::vector<uint64_t> run_ends_;  // in pairs
  uint64_t spilled_ = 0;
};

// Sorts pairs by hash, then row; `scratch` is resized to as many pairs.
void sort_hash_rows(std::vector<HashRow>* pairs, std::vector<HashRow>* scratch);

}  // namespace nimble
