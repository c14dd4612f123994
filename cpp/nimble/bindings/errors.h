// The only place where a Status becomes a Python exception.
#pragma once

#include <pybind11/pybind11.h>

#include "nimble/base/result.h"

namespace nimble {

// Sets the Python exception of `status` and throws it; needs the GIL.
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
