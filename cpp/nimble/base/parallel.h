// parallel_for: n independent tasks on up to `threads` threads, the calling
// one among them. Tasks leave their outcome in a slot; what one throws (memory
// is out) is thrown here, when all threads are done.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace nimble {

inline uint32_t default_threads() {
  return std::max(1u, std::thread::hardware_concurrency());
}

inline void parallel_for(size_t n, uint32_t threads,
                         const std::function<void(size_t)>& task) {
  const size_t workers = std::min<size_t>(threads, n);
  if (workers <= 1) {
    for (size_t i = 0; i < n; ++i) task(i);
    return;
  }
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr thrown;
  const auto work = [&] {
    try {
      for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < n;) {
        task(i);
      }
    } catch (...) {
      next.store(n, std::memory_order_relaxed);  // the rest is not wanted
      const std::lock_guard lock(mutex);
      if (!thrown) thrown = std::current_exception();
    }
  };
  std::vector<std::thread> pool;
  for (size_t i = 1; i < workers; ++i) pool.emplace_back(work);
  work();
  for (std::thread& t : pool) t.join();
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace nimble
