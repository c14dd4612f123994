// SlotCache: numbered items of a file that are loaded one by one, such as its
// stripe groups. Each slot counts the users of its item. Using a loaded item
// takes no lock: it increments the count. Unused items may be evicted, in the
// order in which they were loaded.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "nimble/io/cache_budget.h"
#include "nimble/io/read_lock.h"

namespace nimble {

// An item in use. It is not evicted while the handle exists.
template <class T>
class SlotHandle {
 public:
  SlotHandle() = default;
  ~SlotHandle() {
    if (users_ != nullptr) users_->fetch_sub(kUser, std::memory_order_release);
  }
  SlotHandle(SlotHandle&& o) noexcept
      : users_(std::exchange(o.users_, nullptr)),
        value_(std::exchange(o.value_, nullptr)) {}
  SlotHandle& operator=(SlotHandle&& o) noexcept {
    std::swap(users_, o.users_);
    std::swap(value_, o.value_);
    return *this;
  }

  // A handle to a part of the item, which keeps the item in use.
  template <class U>
  SlotHandle<U> narrow(const U& part) && {
    value_ = nullptr;
    return {std::exchange(users_, nullptr), &part};
  }

  explicit operator bool() const { return value_ != nullptr; }
  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_; }

 private:
  template <class U>
  friend class SlotCache;
  template <class U>
  friend class SlotHandle;
  static constexpr uint64_t kLoaded = 1, kUser = 2;
  SlotHandle(std::atomic<uint64_t>* users, const T* value)
      : users_(users), value_(value) {}

  std::atomic<uint64_t>* users_ = nullptr;
  const T* value_ = nullptr;
};

// REQUIRES: each T counts its memory in counter() while it exists.
template <class T>
class SlotCache final : public CacheBudget::Part {
 public:
  using Handle = SlotHandle<T>;

  SlotCache(size_t slots, CacheBudget* budget) : Part(budget), slots_(slots) {
    attach();
  }
  ~SlotCache() override {
    detach();
    for (Slot& s : slots_) delete s.value;
  }

  // Returns the item, or an empty handle if it is not loaded.
  Handle find(size_t i) const {
    Slot& slot = slots_[i];
    const uint64_t users =
        slot.users.fetch_add(Handle::kUser, std::memory_order_acquire);
    if ((users & Handle::kLoaded) != 0) [[likely]] {
      return {&slot.users, slot.value};
    }
    slot.users.fetch_sub(Handle::kUser, std::memory_order_relaxed);
    return {};
  }
  // Hold it while an item is read and published. Call find() again after
  // acquiring it.
  ReadMutex& mutex() const { return mutex_; }
  // If another thread has loaded the item, keeps that one. The caller calls
  // budget().shrink() after it has released the mutex.
  Handle publish(size_t i, std::unique_ptr<const T> made) const {
    if (Handle loaded = find(i)) return loaded;
    Slot& slot = slots_[i];
    slot.value = made.release();
    slot.users.fetch_add(Handle::kLoaded + Handle::kUser,
                         std::memory_order_release);
    loaded_.push_back(i);
    return {&slot.users, slot.value};
  }

 private:
  struct Slot {
    // kLoaded, and a kUser for each handle. A thread that finds kLoaded missing
    // adds and subtracts a kUser, and does not look at the value.
    std::atomic<uint64_t> users{0};
    const T* value = nullptr;
  };

  bool evict_one() override {
    const ReadLock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    for (size_t n = loaded_.size(); n > 0; --n) {
      const size_t i = loaded_.front();
      loaded_.pop_front();
      uint64_t users = Handle::kLoaded;
      if (slots_[i].users.compare_exchange_strong(users, 0,
                                                  std::memory_order_acquire)) {
        delete std::exchange(slots_[i].value, nullptr);
        return true;
      }
      loaded_.push_back(i);  // in use
    }
    return false;
  }
  // Items that other threads of the parent used are never evicted in the child.
  void after_fork(bool was_held) {
    if (!was_held) return;
    reinit_leaking(&loaded_);
    for (size_t i = 0; i < slots_.size(); ++i) {
      if ((slots_[i].users.load() & Handle::kLoaded) != 0) loaded_.push_back(i);
    }
  }

  mutable std::vector<Slot> slots_;
  mutable ReadMutex mutex_{[this](bool was_held) { after_fork(was_held); }};
  mutable std::deque<size_t> loaded_;  // oldest first
};

}  // namespace nimble
