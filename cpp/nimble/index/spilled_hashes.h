// SpilledHashes: the hashes of a Bloom filter's keys, kept until their number
// is known, which sizes the filter. All but the last few lie on disk.
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
  // `directory` is where they go: see SpillFile.
  explicit SpilledHashes(std::string directory)
      : directory_(std::move(directory)) {}

  // Equal hashes in a row are one.
  Status add(uint64_t hash) {
    if (size_ > 0 && hash == last_) return Status::ok();
    last_ = hash;
    ++size_;
    if (hashes_.size() == kMostInMemory) NIMBLE_RETURN_IF_ERROR(spill());
    hashes_.push_back(hash);
    return Status::ok();
  }
  uint64_t size() const { return size_; }

  // Gives `consume` all of them in the order of adding.
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
