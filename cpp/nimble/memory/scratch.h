// ThreadScratch: temporary memory for one call of a function, which the thread
// keeps for the next call. A nested call (a file object's read_at() that reads
// the file again) gets memory of its own. Memory that has grown large is freed
// at the end of the call.
#pragma once

#include <cstddef>
#include <utility>

namespace nimble {

// REQUIRES: T has clear() and size(). `Purpose` distinguishes uses of one type.
template <class T, class Purpose>
class ThreadScratch {
 public:
  ThreadScratch() : value_(std::move(kept())) { value_.clear(); }
  ~ThreadScratch() {
    if (value_.size() <= kMaxKept) kept() = std::move(value_);
  }
  ThreadScratch(const ThreadScratch&) = delete;
  ThreadScratch& operator=(const ThreadScratch&) = delete;

  T& operator*() { return value_; }
  T* operator->() { return &value_; }

 private:
  static constexpr size_t kMaxKept = size_t{64} << 10;  // in units of size()

  static T& kept() {
    thread_local T memory;
    return memory;
  }

  T value_;
};

}  // namespace nimble
