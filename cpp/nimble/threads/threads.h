// Threads that help with a piece of work.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <system_error>
#include <thread>

namespace nimble {

// One a processor, counted once: that asks the system.
inline uint32_t default_threads() {
  static const uint32_t count =
      std::max(1u, std::thread::hardware_concurrency());
  return count;
}

// Starts up to `n` threads that run `work`, which must not throw, and says how
// many: there are fewer, maybe none, where the system starts no more (a limit
// of processes or of memory), so the caller must be able to do the work alone.
// Nobody waits for them to end. On a busy machine that would be waiting for
// threads that have not begun and have nothing left to do: what they look at
// first must be theirs, and tell them whether the rest is still there.
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

// So many of `threads` are worth starting for work that takes one of them about
// `nanos`: a thread costs its start, and one that is not given a processor at
// once begins milliseconds later.
inline uint32_t threads_worth(double nanos, uint32_t threads) {
  constexpr double kNanosEach = 1e6;
  const double worth = nanos / kNanosEach;
  return worth >= threads ? std::max(1u, threads)
                          : std::max(1u, static_cast<uint32_t>(worth));
}

}  // namespace nimble
