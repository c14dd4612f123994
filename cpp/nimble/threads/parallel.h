// parallel_for: n independent tasks on up to `threads` threads, the calling
// one among them. Tasks leave their outcome in a slot; what one throws (memory
// is out) is thrown here, when all tasks are done. Waits for other threads that
// are at a task: not to be called with the GIL held, unless `threads` is 1.
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

// What the threads of one parallel_for share. Helpers own it, for one that
// begins when all is done finds it later than the caller leaves.
struct ParallelTasks {
  explicit ParallelTasks(size_t num_tasks) : n(num_tasks) {}

  const size_t n;
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::condition_variable left;
  size_t inside = 0;  // helpers
  bool over = false;
  std::exception_ptr thrown;

  void work(const std::function<void(size_t)>& task) {
    try {
      for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < n;) {
        task(i);
      }
    } catch (...) {
      next.store(n, std::memory_order_relaxed);  // the rest is not wanted
      const std::lock_guard lock(mutex);
      if (!thrown) thrown = std::current_exception();
    }
  }
  void help(const std::function<void(size_t)>& task) {
    std::unique_lock lock(mutex);
    if (over) return;  // and `task` is gone
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
