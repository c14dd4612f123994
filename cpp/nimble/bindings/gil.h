// WithoutGil and WithGil: leaving and entering the interpreter.
//
// Python before 3.14 ends a daemon thread that comes back while the process
// shuts down, by pthread_exit(): that unwinds through C++ frames whose
// destructors need the GIL, and pybind11's own guards end the process then.
// Here such a thread waits for the end of the process, as it does in 3.14.
#pragma once

#include <pybind11/pybind11.h>
#include <unistd.h>

#include <optional>

namespace nimble {

// f() may be unwound by pthread_exit() only, never by an exception.
template <class F>
void enter_python(F&& f) noexcept {
  try {
    f();
  } catch (...) {
    for (;;) ::pause();  // leaving would go on with the unwinding
  }
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

}  // namespace nimble
