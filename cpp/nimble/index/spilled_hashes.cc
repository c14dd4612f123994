#include "nimble/index/spilled_hashes.h"

#include <algorithm>

namespace nimble {

Status SpilledHashes::spill() {
  if (file_ == nullptr) {
    NIMBLE_ASSIGN_OR_RETURN(file_, SpillFile::create(directory_));
  }
  NIMBLE_RETURN_IF_ERROR(
      file_->append({reinterpret_cast<const uint8_t*>(hashes_.data()),
                     hashes_.size() * sizeof(uint64_t)}));
  hashes_.clear();
  return Status::ok();
}

Status SpilledHashes::finish(const Consumer& consume) {
  std::vector<uint64_t> spilled;
  const uint64_t end = file_ == nullptr ? 0 : file_->size();
  for (uint64_t at = 0; at < end; at += spilled.size() * sizeof(uint64_t)) {
    spilled.resize(
        std::min<uint64_t>(kMostInMemory, (end - at) / sizeof(uint64_t)));
    NIMBLE_RETURN_IF_ERROR(
        file_->read_at(at, reinterpret_cast<uint8_t*>(spilled.data()),
                       spilled.size() * sizeof(uint64_t)));
    NIMBLE_RETURN_IF_ERROR(consume(spilled));
  }
  return consume(hashes_);
}

}  // namespace nimble
