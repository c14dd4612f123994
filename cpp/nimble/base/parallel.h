// parallel_for: n independent tasks on up to `threads` threads, the calling
// one among them. Tasks leave their outcome in a slot; what one throws (memory
// is out) is thrown here, when all threads are done. Waits for other threads:
// not to be called with the GIL held, unless `threads` is 1.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>

#include "nimble/base/blocking.h"
#include "nimble/base/threads.h"

namespace nimble {

inline void parallel_for(size_t n, uint32_t threads,
                         const std::function<void(size_t)>& task) {
  const size_t workers = std::min<size_t>(threads, n);
  if (workers <= 1) {
    for (size_t i = 0; i < n; ++i) task(i);
    return;
  }
  assert_may_wait();
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
  Threads others;
  others.start(workers - 1, work);
  work();
  others.join();
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace nimble
