// RangeCache: caches byte ranges of a file that is not mapped, within the
// file's budget. Evicts the least recently used range first. No call waits for
// a read. Thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <vector>

#include "nimble/base/bytes.h"
#include "nimble/io/cache_budget.h"
#include "nimble/threads/fork_mutex.h"

namespace nimble {

class RangeCache final : public CacheBudget::Part {
 public:
  using Bytes = std::shared_ptr<const std::vector<uint8_t>>;

  explicit RangeCache(CacheBudget* budget) : Part(budget) { attach(); }
  ~RangeCache() override { detach(); }

  // Returns a cached range that covers [offset, offset + size), or null. Sets
  // `*begin` to its offset in the file.
  Bytes find(uint64_t offset, uint64_t size, uint64_t* begin);
  void put(uint64_t offset, Bytes bytes);
  uint64_t capacity() const { return budget().capacity(); }

  // The bytes that one operation may read ahead. Concurrent operations share
  // half of the capacity.
  class Share {
   public:
    explicit Share(RangeCache* cache) : cache_(cache), forks_(fork_count()) {
      cache_->shares_.fetch_add(1, std::memory_order_relaxed);
    }
    ~Share() {
      // fork() reset the count in the child.
      if (forks_ != fork_count()) return;
      cache_->shares_.fetch_sub(1, std::memory_order_relaxed);
    }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    uint64_t bytes() const {
      const uint64_t n = cache_->shares_.load(std::memory_order_relaxed);
      return cache_->capacity() / 2 / std::max<uint64_t>(n, 1);
    }

   private:
    RangeCache* const cache_;
    const uint32_t forks_;
  };

 private:
  struct Entry {
    uint64_t offset;
    Bytes bytes;
  };
  void insert(uint64_t offset, Bytes bytes);
  bool evict_one() override;
  void after_fork(bool was_held);

  std::atomic<uint64_t> shares_{0};
  mutable ForkMutex mutex_{[this](bool was_held) { after_fork(was_held); }};
  std::list<Entry> recent_;  // front: used last
  std::map<uint64_t, std::list<Entry>::iterator> by_offset_;
};

}  // namespace nimble
