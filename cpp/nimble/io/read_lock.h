// ReadMutex and ReadLock: a mutex that is held while the file is read.
#pragma once

#include <mutex>

#include "nimble/base/blocking.h"
#include "nimble/base/fork_mutex.h"
#include "nimble/io/readable_file.h"

namespace nimble {

// Only a ReadLock locks it, which checks the rule of waiting.
class ReadMutex : private ForkMutex {
 public:
  using ForkMutex::ForkMutex;

 private:
  friend class ReadLock;
};

// May wait for a read of `file` by another thread, unless that is mapped.
class ReadLock {
 public:
  ReadLock(ReadMutex& mutex, const ReadableFile& file) : mutex_(mutex) {
    if (file.mapped() == nullptr) assert_may_wait();
    mutex_.lock();
  }
  // Never waits.
  ReadLock(ReadMutex& mutex, std::try_to_lock_t)
      : mutex_(mutex), owns_(mutex_.try_lock()) {}
  ~ReadLock() {
    if (owns_) mutex_.unlock();
  }
  ReadLock(const ReadLock&) = delete;
  ReadLock& operator=(const ReadLock&) = delete;
  bool owns_lock() const { return owns_; }

 private:
  ReadMutex& mutex_;
  const bool owns_ = true;
};

}  // namespace nimble
