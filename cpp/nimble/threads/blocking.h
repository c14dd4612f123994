// The rule for waiting: a thread that may wait for another thread, or for a
// read, must not hold the interpreter's lock (Python's GIL). The other thread
// may need that lock, for example to call a Python file or to end.
//
// Functions that may wait say so in their headers. Bindings may call all other
// functions with the GIL held. They may also read mapped files with the GIL
// held, because locks held during such reads never call Python. In builds with
// asserts, such as those for tests, every place that waits checks the rule:
// ReadLock, files that are not mapped, parallel_for() and ReadAhead.
#pragma once

#include <atomic>
#include <cassert>

namespace nimble {

// Returns whether the calling thread holds the interpreter's lock. Set by the
// bindings; null in programs without an interpreter.
inline std::atomic<bool (*)()> holds_interpreter{nullptr};

inline void assert_may_wait() {
#if !defined(NDEBUG)
  bool (*const holds)() = holds_interpreter.load(std::memory_order_relaxed);
  assert(holds == nullptr || !holds());
#endif
}

}  // namespace nimble
