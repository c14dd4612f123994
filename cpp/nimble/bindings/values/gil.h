// WithoutGil, WithGil and MaybeGil: release and acquire the GIL.
//
// Before Python 3.14, a daemon thread that acquires the GIL while the process
// shuts down is ended by pthread_exit(). This unwinds C++ frames whose
// destructors need the GIL, and pybind11's guards then terminate the process.
// Here, as in Python 3.14, such a thread waits for the end of the process
// instead.
#pragma once

#include <pybind11/pybind11.h>
#include <unistd.h>

#if defined(__GLIBCXX__)
#include <cxxabi.h>
#endif
#include <optional>

namespace nimble {

// Calls f(), which acquires the GIL. If pthread_exit() unwinds f(), waits for
// the end of the process. Passes other exceptions on, such as std::bad_alloc.
template <class F>
void enter_python(F&& f) {
#if defined(__GLIBCXX__)
  try {
    f();
  } catch (const abi::__forced_unwind&) {
    for (;;) ::pause();  // returning would continue the unwinding
  }
#else
  f();
#endif
}

// Releases the GIL during its lifetime.
// REQUIRES: the GIL is held.
class WithoutGil {
 public:
  WithoutGil() : thread_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    enter_python([this] { PyEval_RestoreThread(thread_); });
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* const thread_;
};

// Calls f() without the GIL and returns its result.
// REQUIRES: f() does not use Python objects.
template <class F>
auto without_gil(F&& f) {
  const WithoutGil nogil;
  return f();
}

// Holds the GIL during its lifetime, on any thread, even if the thread holds
// the GIL already.
class WithGil {
 public:
  WithGil() {
    enter_python([this] { gil_.emplace(); });
  }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  std::optional<pybind11::gil_scoped_acquire> gil_;
};

// Like WithGil, but does not acquire the GIL if the interpreter shuts down and
// the thread belongs to the core. Such a thread must end, because the main
// thread may wait for it.
class MaybeGil {
 public:
  MaybeGil();
  ~MaybeGil();
  MaybeGil(const MaybeGil&) = delete;
  MaybeGil& operator=(const MaybeGil&) = delete;

  explicit operator bool() const { return gil_.has_value(); }

 private:
  const bool is_core_thread_;
  std::optional<WithGil> gil_;
};

// Call this when the interpreter begins to shut down. From then on, threads of
// the core cannot acquire the GIL. Waits for core threads that hold it.
// REQUIRES: the GIL is held.
void close_interpreter();

// Drops a reference, on any thread. Leaks it if the GIL cannot be acquired.
inline void drop(pybind11::object* object) noexcept {
  try {
    const MaybeGil gil;
    if (gil) {
      *object = pybind11::object();
      return;
    }
  } catch (const std::exception&) {
  }
  object->release();
}

}  // namespace nimble
