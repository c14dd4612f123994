// Starting helper threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <system_error>
#include <thread>

namespace nimble {

// One thread per processor. Cached, because counting them is a system call.
inline uint32_t default_threads() {
  static const uint32_t count =
      std::max(1u, std::thread::hardware_concurrency());
  return count;
}

// Starts up to `n` threads that run `work`. Returns how many were started.
// There may be fewer, even zero, at a limit of processes or memory, so the
// caller must be able to do the work alone. The threads are detached, because
// on a busy machine a join would wait for threads that have not begun and have
// no work left. `work` must therefore own the data it accesses first, and find
// out from it whether other data still exists.
// REQUIRES: `work` does not throw.
inline size_t start_threads(size_t n, const std::function<void()>& work) {
  for (size_t i = 0; i < n; ++i) {
    try {
      std::thread(work).detach();
    } catch (const std::system_error&) {
      return i;
    }
  }
  return n;
}

// The number of threads, up to `threads`, that are worth starting for work that
// takes one thread about `nanos` ns. A thread has a start-up cost, and a thread
// that is not scheduled at once begins milliseconds later.
inline uint32_t threads_worth(double nanos, uint32_t threads) {
  constexpr double kNanosEach = 1e6;
  const double worth = nanos / kNanosEach;
  return worth >= threads ? std::max(1u, threads)
                          : std::max(1u, static_cast<uint32_t>(worth));
}

}  // namespace nimble
