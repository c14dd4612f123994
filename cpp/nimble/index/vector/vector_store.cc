#include "nimble/index/vector/vector_store.h"

#include <algorithm>
#include <cstring>

namespace nimble {
namespace {

constexpr uint64_t kSpillBytes = uint64_t{1} << 20;

}  // namespace

Status VectorStore::add(const uint8_t* row) {
  const uint64_t number = file_rows_++;
  if (row == nullptr) return Status::ok();
  switch (fitness_of(metric_, type_, row)) {
    case VectorFitness::kLeftOut:
      return Status::ok();
    case VectorFitness::kTooLong:
      has_long_rows_ = true;
      break;
    case VectorFitness::kFine:
      break;
  }
  if (runs_.empty() ||
      runs_.back().file_row + (size_ - runs_.back().first) != number) {
    runs_.push_back({size_, number});
  }
  bytes_.insert(bytes_.end(), row, row + type_.row_bytes());
  ++size_;
  if (bytes_.size() < (spilled_ ? kSpillBytes : memory_bytes_)) {
    return Status::ok();
  }
  if (spilled_ == nullptr) {
    NIMBLE_ASSIGN_OR_RETURN(spilled_, SpillFile::create(spill_directory_));
  }
  NIMBLE_RETURN_IF_ERROR(spilled_->append(bytes_));
  bytes_.clear();
  bytes_.shrink_to_fit();
  return Status::ok();
}

uint64_t VectorStore::file_row(uint64_t i) const {
  const auto run = std::prev(std::upper_bound(
      runs_.begin(), runs_.end(), i,
      [](uint64_t row, const Run& r) { return row < r.first; }));
  return run->file_row + (i - run->first);
}

Status VectorStore::read(uint64_t first, uint64_t count,
                         std::vector<uint8_t>* out) const {
  const uint64_t begin = first * type_.row_bytes();
  const uint64_t size = count * type_.row_bytes();
  const uint64_t on_disk = spilled_ ? spilled_->size() : 0;
  out->resize(size);
  const uint64_t from_disk =
      begin < on_disk ? std::min(size, on_disk - begin) : 0;
  if (from_disk > 0) {
    NIMBLE_RETURN_IF_ERROR(spilled_->read_at(begin, out->data(), from_disk));
  }
  if (from_disk < size) {
    std::memcpy(out->data() + from_disk,
                bytes_.data() + (begin + from_disk - on_disk),
                size - from_disk);
  }
  return Status::ok();
}

}  // namespace nimble
