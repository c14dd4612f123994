// parallel_for: n independent tasks on up to `threads` threads, the calling
// one among them. Tasks must not fail; they leave their outcome in a slot.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
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
  const auto work = [&] {
    for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < n;) {
      task(i);
    }
  };
  std::vector<std::thread> pool;
  for (size_t i = 1; i < workers; ++i) pool.emplace_back(work);
  work();
  for (std::thread& t : pool) t.join();
}

}  // namespace nimble
