// The rule of waiting: a thread that may have to wait for another thread, or
// for a read, does not hold the interpreter's lock (Python's GIL). Whoever it
// waits for may need that lock: to call a Python file, or to end.
//
// Functions that may wait say so in their headers; what bindings may call with
// the GIL held are the others, and reads of mapped files, whose holders of
// locks call nothing of Python's. Where asserts are compiled in, as in the
// builds that tests run on, every place that waits checks the rule: ReadLock,
// files that are not mapped, parallel_for() and ReadAhead.
#pragma once

#include <atomic>
#include <cassert>

namespace nimble {

// Does the calling thread hold the interpreter's lock? Set by the bindings;
// null in programs without an interpreter.
inline std::atomic<bool (*)()> holds_interpreter{nullptr};

inline void assert_may_wait() {
#if !defined(NDEBUG)
  bool (*const holds)() = holds_interpreter.load(std::memory_order_relaxed);
  assert(holds == nullptr || !holds());
#endif
}

}  // namespace nimble
