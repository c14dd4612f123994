#include "nimble/io/cache_budget.h"

#include <algorithm>
#include <mutex>

namespace nimble {

// Each change of the list is one store, so a child of fork() always sees a
// consistent list.
void CacheBudget::Part::attach() {
  const std::lock_guard lock(budget_.mutex_);
  next_ = budget_.parts_;
  budget_.parts_ = this;
}

void CacheBudget::Part::detach() {
  const std::lock_guard lock(budget_.mutex_);
  Part** at = &budget_.parts_;
  while (*at != this) at = &(*at)->next_;
  *at = next_;
}

uint64_t CacheBudget::used_by_parts() const {
  uint64_t sum = 0;
  for (const Part* p = parts_; p != nullptr; p = p->next_) sum += p->used();
  return sum;
}

uint64_t CacheBudget::used() const {
  const std::lock_guard lock(mutex_);
  return used_by_parts() + resident_.load(std::memory_order_relaxed);
}

void CacheBudget::shrink() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;  // the other thread evicts
  const uint64_t resident = resident_.load(std::memory_order_relaxed);
  const uint64_t room = capacity_ - std::min(resident, capacity_ / 2);
  while (used_by_parts() > room && evict_one()) ++evictions_;
}

bool CacheBudget::evict_one() {
  if (parts_ == nullptr) return false;
  Part* largest = parts_;
  for (Part* p = parts_; p != nullptr; p = p->next_) {
    if (p->used() > largest->used()) largest = p;
  }
  if (largest->evict_one()) return true;
  // All of the part's items are in use.
  for (Part* p = parts_; p != nullptr; p = p->next_) {
    if (p != largest && p->evict_one()) return true;
  }
  return false;
}

}  // namespace nimble
