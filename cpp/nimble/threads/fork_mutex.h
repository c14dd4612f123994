// ForkMutex: a mutex that also works in a child of fork(). A thread that held
// the mutex at that moment does not exist in the child.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <new>

namespace nimble {

class ForkMutex {
 public:
  // Called in the child before other code runs there. `was_held`: a thread that
  // does not exist in the child held the mutex, so the data it was changing may
  // be inconsistent. Call reinit_leaking() for such data, and do not free it.
  // The function must not create or destroy a ForkMutex.
  using AfterFork = std::function<void(bool was_held)>;

  explicit ForkMutex(AfterFork after_fork = nullptr);
  ~ForkMutex();
  ForkMutex(const ForkMutex&) = delete;
  ForkMutex& operator=(const ForkMutex&) = delete;

  void lock() { mutex_.lock(); }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  struct All;
  static All& all();
  static void reinit_all();  // runs in the child
  void reinit_after_fork();

  std::mutex mutex_;
  const AfterFork after_fork_;
  ForkMutex* previous_ = nullptr;
  ForkMutex* next_ = nullptr;
};

// Number of forks between the process that loaded this code and this process.
// Threads that were started at another count do not exist here.
uint32_t fork_count();

// Overwrites a possibly inconsistent value with a new one. The old value is
// leaked.
template <class T>
void reinit_leaking(T* value) {
  ::new (static_cast<void*>(value)) T();
}

}  // namespace nimble
