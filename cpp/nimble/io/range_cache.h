// RangeCache: a bounded, thread-safe cache of immutable stretches of a file
// that is not mapped. Least recently used stretches go first.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "nimble/base/bytes.h"

namespace nimble {

class RangeCache {
 public:
  using Bytes = std::shared_ptr<const std::vector<uint8_t>>;

  explicit RangeCache(uint64_t capacity) : capacity_(capacity) {}

  // A cached stretch that covers [offset, offset + size), or null; `*begin`
  // is where in the file it begins.
  Bytes find(uint64_t offset, uint64_t size, uint64_t* begin);
  void put(uint64_t offset, Bytes bytes);
  uint64_t memory_bytes() const;
  uint64_t capacity() const { return capacity_; }

 private:
  struct Entry {
    uint64_t offset;
    Bytes bytes;
  };
  void evict();

  const uint64_t capacity_;
  mutable std::mutex mutex_;
  std::list<Entry> recent_;  // front: used last
  std::map<uint64_t, std::list<Entry>::iterator> by_offset_;
  uint64_t used_ = 0;
};

}  // namespace nimble
