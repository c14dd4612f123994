// MemoryWatch: checks that the system has memory left before more is allocated.
// Systems that overcommit kill processes. A file of a few KB may represent
// billions of rows, which decode into many small buffers or into one large
// buffer.
#pragma once

#include <cstddef>

namespace nimble {

class MemoryWatch {
 public:
  using Available = size_t (*)();
  // A check costs about 50 us; filling this much memory takes far longer.
  static constexpr size_t kStep = size_t{256} << 20;
  // Not used, so that other processes and threads can allocate in the meantime.
  static constexpr size_t kReserve = size_t{64} << 20;

  explicit MemoryWatch(Available available) : available_(available) {}

  // Returns whether `size` bytes may be allocated. Checks the system for each
  // large allocation, and once per kStep bytes of smaller ones. Not
  // thread-safe.
  bool may_take(size_t size) {
    if (size < kStep && size <= allowed_) {
      allowed_ -= size;
      return true;
    }
    const size_t there = available_();
    if (there < kReserve || there - kReserve < size) return false;
    const size_t left = there - kReserve - size;
    allowed_ = left < kStep ? left : kStep;
    return true;
  }

 private:
  const Available available_;
  size_t allowed_ = 0;
};

}  // namespace nimble
