// parallel_for: runs n independent tasks on up to `threads` threads, including
// the calling thread. Tasks store their own results. If a task throws (such as
// std::bad_alloc), no further tasks start, and the exception is thrown here
// after the running tasks end. Waits for other threads.
// REQUIRES: the GIL is not held, unless `threads` is 1.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

#include "nimble/threads/blocking.h"
#include "nimble/threads/threads.h"

namespace nimble {

// The shared state of one parallel_for. Helpers share its ownership, because a
// helper may start after the caller has returned.
struct ParallelTasks {
  explicit ParallelTasks(size_t num_tasks) : n(num_tasks) {}

  const size_t n;
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::condition_variable left;
  size_t inside = 0;  // number of running helpers
  bool over = false;
  std::exception_ptr thrown;

  void work(const std::function<void(size_t)>& task) {
    try {
      for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < n;) {
        task(i);
      }
    } catch (...) {
      next.store(n, std::memory_order_relaxed);  // skip the remaining tasks
      const std::lock_guard lock(mutex);
      if (!thrown) thrown = std::current_exception();
    }
  }
  void help(const std::function<void(size_t)>& task) {
    std::unique_lock lock(mutex);
    if (over) return;  // `task` no longer exists
    ++inside;
    lock.unlock();
    work(task);
    lock.lock();
    if (--inside == 0) left.notify_all();
  }
  void finish() {
    std::unique_lock lock(mutex);
    over = true;
    left.wait(lock, [this] { return inside == 0; });
    if (thrown) std::rethrow_exception(thrown);
  }
};

inline void parallel_for(size_t n, uint32_t threads,
                         const std::function<void(size_t)>& task) {
  const size_t workers = std::min<size_t>(threads, n);
  if (workers <= 1) {
    for (size_t i = 0; i < n; ++i) task(i);
    return;
  }
  assert_may_wait();
  const auto tasks = std::make_shared<ParallelTasks>(n);
  start_threads(workers - 1, [tasks, &task] { tasks->help(task); });
  tasks->work(task);
  tasks->finish();
}

}  // namespace nimble
