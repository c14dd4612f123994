// SpilledHashes: stores the hashes for a Bloom filter until their number is
// known, because the number determines the filter's size. All but the last
// hashes are on disk.
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

class SpilledHashes {
 public:
  // `directory` receives the file: see SpillFile.
  explicit SpilledHashes(std::string directory)
      : directory_(std::move(directory)) {}

  // Adds a hash. Consecutive equal hashes count once. May block on a write.
  Status add(uint64_t hash) {
    if (size_ > 0 && hash == last_) return Status::ok();
    last_ = hash;
    ++size_;
    if (hashes_.size() == kMostInMemory) NIMBLE_RETURN_IF_ERROR(spill());
    hashes_.push_back(hash);
    return Status::ok();
  }
  uint64_t size() const { return size_; }

  // Calls `consume` with all hashes in the order of adding. May block on reads.
  using Consumer = std::function<Status(std::span<const uint64_t>)>;
  Status finish(const Consumer& consume);

 private:
  static constexpr size_t kMostInMemory = size_t{1} << 16;

  Status spill();

  const std::string directory_;
  std::unique_ptr<SpillFile> file_;
  std::vector<uint64_t> hashes_;
  uint64_t last_ = 0;
  uint64_t size_ = 0;
};

}  // namespace nimble
