// PageCache: opened pages of many files. Drops the least recently used pages
// first. Thread-safe.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "nimble/threads/fork_mutex.h"

namespace nimble::parquet {

struct PageKey {
  uint64_t file;
  uint32_t group;
  uint32_t leaf;
  uint32_t page;  // UINT32_MAX: the dictionary

  bool operator==(const PageKey&) const = default;
};

class PageCache {
 public:
  explicit PageCache(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // Returns null if the page is not in the cache.
  std::shared_ptr<const void> find(const PageKey& key) {
    const std::lock_guard<ForkMutex> lock(mutex_);
    const auto it = entries_.find(key);
    if (it == entries_.end()) return nullptr;
    recent_.splice(recent_.begin(), recent_, it->second);
    return it->second->page;
  }
  void put(const PageKey& key, std::shared_ptr<const void> page,
           uint64_t bytes) {
    const std::lock_guard<ForkMutex> lock(mutex_);
    if (bytes > max_bytes_ || entries_.contains(key)) return;
    recent_.push_front({key, std::move(page), bytes});
    entries_[key] = recent_.begin();
    used_ += bytes;
    while (used_ > max_bytes_) {
      used_ -= recent_.back().bytes;
      entries_.erase(recent_.back().key);
      recent_.pop_back();
    }
  }
  uint64_t used_bytes() const {
    const std::lock_guard<ForkMutex> lock(mutex_);
    return used_;
  }

 private:
  struct Entry {
    PageKey key;
    std::shared_ptr<const void> page;
    uint64_t bytes;
  };
  struct Hash {
    size_t operator()(const PageKey& k) const {
      uint64_t h = k.file * 0x9E3779B97F4A7C15u;
      h = (h ^ k.group) * 0xC2B2AE3D27D4EB4Fu;
      h = (h ^ k.leaf) * 0x165667B19E3779F9u;
      return (h ^ k.page) * 0x9E3779B97F4A7C15u;
    }
  };

  mutable ForkMutex mutex_;
  const uint64_t max_bytes_;
  uint64_t used_ = 0;
  std::list<Entry> recent_;
  std::unordered_map<PageKey, std::list<Entry>::iterator, Hash> entries_;
};

}  // namespace nimble::parquet
