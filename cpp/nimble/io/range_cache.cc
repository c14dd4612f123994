#include "nimble/io/range_cache.h"

#include <iterator>
#include <mutex>

namespace nimble {

RangeCache::Bytes RangeCache::find(uint64_t offset, uint64_t size,
                                   uint64_t* begin) {
  const std::lock_guard lock(mutex_);
  // No cached range contains another, so the last range that begins at or
  // before `offset` ends last.
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
  if (bytes->size() > capacity()) return;
  insert(offset, std::move(bytes));
  budget().shrink();
}

void RangeCache::insert(uint64_t offset, Bytes bytes) {
  const std::lock_guard lock(mutex_);
  // No cached range contains another.
  const auto end_of = [](const Entry& e) { return e.offset + e.bytes->size(); };
  const uint64_t end = offset + bytes->size();
  auto at = by_offset_.upper_bound(offset);
  if (at != by_offset_.begin()) {
    const auto before = std::prev(at);
    if (end_of(*before->second) >= end) return;  // another thread added it
    if (before->first == offset) at = before;
  }
  while (at != by_offset_.end() && end_of(*at->second) <= end) {
    *counter() -= at->second->bytes->size();
    recent_.erase(at->second);
    at = by_offset_.erase(at);
  }
  *counter() += bytes->size();
  recent_.push_front({offset, std::move(bytes)});
  by_offset_[offset] = recent_.begin();
}

bool RangeCache::evict_one() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || recent_.empty()) return false;
  *counter() -= recent_.back().bytes->size();
  by_offset_.erase(recent_.back().offset);
  recent_.pop_back();
  return true;
}

void RangeCache::after_fork(bool was_held) {
  shares_.store(0,
                std::memory_order_relaxed);  // their threads do not exist here
  if (!was_held) return;
  reinit_leaking(&recent_);
  reinit_leaking(&by_offset_);
  *counter() = 0;
}

}  // namespace nimble
