// CacheBudget: how much an open file keeps in memory, and what gives way where
// that is more than it may. All that a file keeps is counted here: what it can
// read again (groups of metadata, stretches of a file that is not mapped) in
// the parts that keep it, the rest (dictionaries, Bloom filters, roots of
// indexes) as resident.
#pragma once

#include <atomic>
#include <cstdint>

#include "nimble/threads/fork_mutex.h"

namespace nimble {

class CacheBudget {
 public:
  // What can give memory back. Any thread may use it.
  class Part {
   public:
    explicit Part(CacheBudget* budget) : budget_(*budget) {}
    virtual ~Part() = default;
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

    CacheBudget& budget() const { return budget_; }
    uint64_t used() const { return used_.load(std::memory_order_relaxed); }
    // Where what the part keeps is counted.
    std::atomic<uint64_t>* counter() const { return &used_; }

   protected:
    // Joins and leaves the budget's parts: a derived class attaches once it is
    // built and detaches before it is taken apart, since other threads ask
    // every part that is attached to give way.
    void attach();
    void detach();

   private:
    friend class CacheBudget;
    // Gives back something that nobody uses, one of those that were wanted
    // longest ago. False where there is none, and where another thread is
    // changing the part: never waits.
    virtual bool evict_one() = 0;

    CacheBudget& budget_;
    Part* next_ = nullptr;
    mutable std::atomic<uint64_t> used_{0};
  };

  explicit CacheBudget(uint64_t capacity) : capacity_(capacity) {}

  uint64_t capacity() const { return capacity_; }
  // Of all parts, and resident.
  uint64_t used() const;
  void add_resident(uint64_t bytes) {
    resident_.fetch_add(bytes, std::memory_order_relaxed);
  }
  // Has the part that keeps most give way, until all parts fit in beside what
  // is resident; however much that is, half of the capacity is theirs. To be
  // called when a part has grown, without any lock of a part. Never waits.
  void shrink();
  // For tests: how often a part was asked to give way.
  uint64_t evictions() const { return evictions_; }

 private:
  uint64_t used_by_parts() const;
  bool evict_one();

  const uint64_t capacity_;
  std::atomic<uint64_t> resident_{0};
  mutable ForkMutex mutex_;  // of the list, and one thread shrinks at a time
  Part* parts_ = nullptr;
  uint64_t evictions_ = 0;
};

}  // namespace nimble
