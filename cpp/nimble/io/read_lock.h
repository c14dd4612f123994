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

// Only a ReadLock locks it, which checks the rule of waiting.
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

// May wait for a read of `file` by another thread, unless that is mapped. A
// read may run code of the caller's that asks the same file again: a thread
// that holds the mutex takes it once more at once. So what the mutex guards is
// to be looked at again after a read under it.
class ReadLock {
 public:
  ReadLock(ReadMutex& mutex, const ReadableFile& file)
      : mutex_(mutex), owns_(!mutex.is_mine()) {
    if (!owns_) return;
    if (file.mapped() == nullptr) assert_may_wait();
    mutex_.lock();
    mutex_.owner_ = std::this_thread::get_id();
  }
  // Never waits. Does not own what the thread holds already.
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
