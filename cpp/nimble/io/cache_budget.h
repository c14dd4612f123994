// CacheBudget: limits the memory of an open file. Data that can be read again
// (metadata of groups, ranges of a file that is not mapped) is in parts, which
// can evict it. Other data (dictionaries, Bloom filters, roots of indexes) is
// resident. Both are counted here.
#pragma once

#include <atomic>
#include <cstdint>

#include "nimble/threads/fork_mutex.h"

namespace nimble {

class CacheBudget {
 public:
  // A cache that can evict data. Thread-safe.
  class Part {
   public:
    explicit Part(CacheBudget* budget) : budget_(*budget) {}
    virtual ~Part() = default;
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

    CacheBudget& budget() const { return budget_; }
    uint64_t used() const { return used_.load(std::memory_order_relaxed); }
    // Counts the bytes that the part holds.
    std::atomic<uint64_t>* counter() const { return &used_; }

   protected:
    // Adds the part to the budget, and removes it. A derived class attaches at
    // the end of its constructor and detaches at the beginning of its
    // destructor, because other threads may evict from every attached part.
    void attach();
    void detach();

   private:
    friend class CacheBudget;
    // Evicts one unused item, among those used longest ago. Returns false if
    // there is no such item, or if another thread changes the part. Never
    // blocks.
    virtual bool evict_one() = 0;

    CacheBudget& budget_;
    Part* next_ = nullptr;
    mutable std::atomic<uint64_t> used_{0};
  };

  explicit CacheBudget(uint64_t capacity) : capacity_(capacity) {}

  uint64_t capacity() const { return capacity_; }
  // Bytes of all parts and of resident data.
  uint64_t used() const;
  void add_resident(uint64_t bytes) {
    resident_.fetch_add(bytes, std::memory_order_relaxed);
  }
  // Evicts from the largest part until all parts fit beside the resident data.
  // Half of the capacity is always left to the parts. Call it after a part has
  // grown. Never blocks.
  // REQUIRES: the caller holds no lock of a part.
  void shrink();
  // For tests: the number of evictions that were tried.
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
