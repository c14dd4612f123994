// The only place where a Status becomes a Python exception, and the other way
// around. All of it needs the GIL.
#pragma once

#include <pybind11/pybind11.h>

#include "nimble/base/result.h"

namespace nimble {

// What a Python object of the caller's raised, as the Status that the core
// hands on. It holds the exception, which raise() raises as itself: nothing is
// left in the thread's error indicator, and any thread may carry it.
Status python_failure(const pybind11::error_already_set& error,
                      const std::string& where);

// Sets the Python exception of `status` and throws it.
[[noreturn]] void raise(const Status& status);

inline void check(const Status& status) {
  if (!status) raise(status);
}
template <class T>
T unwrap(Result<T>&& result) {
  if (!result) raise(result.error());
  return std::move(result).value();
}

}  // namespace nimble
