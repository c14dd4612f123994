// ThreadScratch: memory that a function uses for the length of one call, kept
// by its thread for the next call. The thread's memory belongs to one call at a
// time: a call inside that call (a file object's read_at() that reads the file
// again) gets memory of its own. What has grown large is given back at the end.
#pragma once

#include <cstddef>
#include <utility>

namespace nimble {

// T has clear() and size(); `Purpose` tells uses of the same type apart.
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
