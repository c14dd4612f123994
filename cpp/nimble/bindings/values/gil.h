// WithoutGil and WithGil: leaving and entering the interpreter.
//
// Python before 3.14 ends a daemon thread that comes back while the process
// shuts down, by pthread_exit(): that unwinds through C++ frames whose
// destructors need the GIL, and pybind11's own guards end the process then.
// Here such a thread waits for the end of the process, as it does in 3.14.
#pragma once

#include <pybind11/pybind11.h>
#include <unistd.h>

#if defined(__GLIBCXX__)
#include <cxxabi.h>
#endif
#include <optional>

namespace nimble {

// f(), which takes the GIL. What pthread_exit() unwinds waits for the end of
// the process; what f() throws (there is no memory) is thrown.
template <class F>
void enter_python(F&& f) {
#if defined(__GLIBCXX__)
  try {
    f();
  } catch (const abi::__forced_unwind&) {
    for (;;) ::pause();  // leaving would go on with the unwinding
  }
#else
  f();
#endif
}

// Other Python threads run while it lives. Made with the GIL.
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

// What f(), which touches nothing of Python's, returns without the GIL.
template <class F>
auto without_gil(F&& f) {
  const WithoutGil nogil;
  return f();
}

// The GIL, on any thread, held before or not.
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

// Gives a reference back, on any thread; leaks it where the GIL cannot be had.
inline void drop(pybind11::object* object) noexcept {
  try {
    const WithGil gil;
    *object = pybind11::object();
  } catch (const std::exception&) {
    object->release();
  }
}

}  // namespace nimble
