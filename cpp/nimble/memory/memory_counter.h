// MemoryCounter: counts bytes that an object keeps, and adds them to a shared
// total. The destructor subtracts all of them from the total. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

namespace nimble {

class MemoryCounter {
 public:
  // `total` must outlive the counter; null: no total.
  explicit MemoryCounter(std::atomic<uint64_t>* total) : total_(total) {}
  ~MemoryCounter() {
    if (total_ != nullptr) {
      total_->fetch_sub(bytes(), std::memory_order_relaxed);
    }
  }
  MemoryCounter(const MemoryCounter&) = delete;
  MemoryCounter& operator=(const MemoryCounter&) = delete;

  void add(uint64_t bytes) {
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
    if (total_ != nullptr) {
      total_->fetch_add(bytes, std::memory_order_relaxed);
    }
  }
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t>* const total_;
  std::atomic<uint64_t> bytes_{0};
};

}  // namespace nimble
