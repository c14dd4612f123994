#include "nimble/io/range_cache.h"

namespace nimble {

RangeCache::Bytes RangeCache::find(uint64_t offset, uint64_t size,
                                   uint64_t* begin) {
  const std::lock_guard lock(mutex_);
  auto it = by_offset_.upper_bound(offset);
  if (it == by_offset_.begin()) return nullptr;
  const auto entry = (--it)->second;
  if (!in_bounds(offset - entry->offset, size, entry->bytes->size())) {
    return nullptr;
  }
  recent_.splice(recent_.begin(), recent_, entry);
  *begin = entry->offset;
  return entry->bytes;
}

void RangeCache::put(uint64_t offset, Bytes bytes) {
  if (bytes->size() > capacity_) return;
  const std::lock_guard lock(mutex_);
  if (const auto it = by_offset_.find(offset); it != by_offset_.end()) {
    if (it->second->bytes->size() >= bytes->size()) return;
    used_ -= it->second->bytes->size();
    recent_.erase(it->second);
    by_offset_.erase(it);
  }
  used_ += bytes->size();
  recent_.push_front({offset, std::move(bytes)});
  by_offset_[offset] = recent_.begin();
  evict();
}

void RangeCache::evict() {
  while (used_ > capacity_ && !recent_.empty()) {
    used_ -= recent_.back().bytes->size();
    by_offset_.erase(recent_.back().offset);
    recent_.pop_back();
  }
}

uint64_t RangeCache::memory_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

}  // namespace nimble
