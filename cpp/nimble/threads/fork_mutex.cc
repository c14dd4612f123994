#include "nimble/threads/fork_mutex.h"

#include <pthread.h>

#include <atomic>

namespace nimble {
namespace {

std::atomic<uint32_t> forks{0};

}  // namespace

// The list's mutex is held for a few instructions, and never while acquiring
// another lock, so that fork() can wait for it. fork() cannot wait for the
// ForkMutexes themselves: their holder may be reading from a Python object, and
// a thread that forks from Python holds the GIL.
struct ForkMutex::All {
  std::mutex mutex;
  ForkMutex* first = nullptr;
};

// Never destroyed: files may be closed after all other static objects are
// destroyed.
ForkMutex::All& ForkMutex::all() {
  static All* const it = [] {
    auto* const made = new All();
    ::pthread_atfork([] { all().mutex.lock(); }, [] { all().mutex.unlock(); },
                     &ForkMutex::reinit_all);
    return made;
  }();
  return *it;
}

ForkMutex::ForkMutex(AfterFork after_fork)
    : after_fork_(std::move(after_fork)) {
  All& list = all();
  const std::lock_guard lock(list.mutex);
  next_ = list.first;
  if (next_ != nullptr) next_->previous_ = this;
  list.first = this;
}

ForkMutex::~ForkMutex() {
  All& list = all();
  const std::lock_guard lock(list.mutex);
  if (next_ != nullptr) next_->previous_ = previous_;
  (previous_ != nullptr ? previous_->next_ : list.first) = next_;
}

void ForkMutex::reinit_all() {
  forks.fetch_add(1, std::memory_order_relaxed);
  All& list = all();
  for (ForkMutex* m = list.first; m != nullptr; m = m->next_)
    m->reinit_after_fork();
  list.mutex.unlock();
}

void ForkMutex::reinit_after_fork() {
  const bool was_held = !mutex_.try_lock();
  if (was_held) {
    reinit_leaking(&mutex_);
  } else {
    mutex_.unlock();
  }
  if (after_fork_) after_fork_(was_held);
}

uint32_t fork_count() {
  // The first ForkMutex registers the fork handlers, which count forks.
  static const auto* const first = new ForkMutex();
  (void)first;
  return forks.load(std::memory_order_relaxed);
}

}  // namespace nimble
