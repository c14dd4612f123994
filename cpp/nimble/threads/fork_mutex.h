// ForkMutex: a mutex that works in a child of fork(), too, where the thread
// that held it at that moment does not exist.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <new>

namespace nimble {

class ForkMutex {
 public:
  // Called in the child before anything else runs there, with whether a thread
  // that is gone held the mutex. What it was changing is half changed then:
  // reinit_leaking() that, do not free it. Must not make or destroy a
  // ForkMutex.
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
  static void reinit_all();  // in the child
  void reinit_after_fork();

  std::mutex mutex_;
  const AfterFork after_fork_;
  ForkMutex* previous_ = nullptr;
  ForkMutex* next_ = nullptr;
};

// How many forks lie between the process that loaded this code and this one:
// threads that were started at another number are not here.
uint32_t fork_count();

// Makes a new value of what may be half changed; the old one is leaked.
template <class T>
void reinit_leaking(T* value) {
  ::new (static_cast<void*>(value)) T();
}

}  // namespace nimble
