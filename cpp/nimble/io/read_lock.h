// ReadMutex and ReadLock: a mutex that is held while the file is read.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

#include <mutex>

#include "nimble/io/readable_file.h"
#include "nimble/threads/blocking.h"
#include "nimble/threads/fork_mutex.h"

namespace nimble {

// Locked only by a ReadLock, which checks the rule for waiting (blocking.h).
class ReadMutex : private ForkMutex {
 public:
  explicit ReadMutex(AfterFork after_fork = nullptr)
      : ForkMutex([this, after = std::move(after_fork)](bool was_held) {
          owner_ = std::thread::id();
          if (after) after(was_held);
        }) {}

 private:
  friend class ReadLock;
  bool is_mine() const { return owner_ == std::this_thread::get_id(); }

  std::atomic<std::thread::id> owner_{};
};

// May wait until another thread has read `file`, unless the file is mapped. A
// read may run the caller's code, which may use the same file again, so the
// mutex is recursive. Check the guarded state again after every read.
class ReadLock {
 public:
  ReadLock(ReadMutex& mutex, const ReadableFile& file)
      : mutex_(mutex), owns_(!mutex.is_mine()) {
    if (!owns_) return;
    if (file.mapped() == nullptr) assert_may_wait();
    mutex_.lock();
    mutex_.owner_ = std::this_thread::get_id();
  }
  // Never waits. Owns nothing if this thread already holds the mutex.
  ReadLock(ReadMutex& mutex, std::try_to_lock_t)
      : mutex_(mutex), owns_(!mutex.is_mine() && mutex.try_lock()) {
    if (owns_) mutex_.owner_ = std::this_thread::get_id();
  }
  ~ReadLock() {
    if (!owns_) return;
    mutex_.owner_ = std::thread::id();
    mutex_.unlock();
  }
  ReadLock(const ReadLock&) = delete;
  ReadLock& operator=(const ReadLock&) = delete;
  bool owns_lock() const { return owns_; }

 private:
  ReadMutex& mutex_;
  const bool owns_;
};

}  // namespace nimble
