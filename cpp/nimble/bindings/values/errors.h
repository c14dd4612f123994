// Converts between Status and Python exceptions. Other code must not do this
// itself. All functions need the GIL.
#pragma once

#include <pybind11/pybind11.h>

#include <new>

#include "nimble/base/result.h"

namespace nimble {

// Converts an exception of a caller's Python object to a Status. The Status
// holds the exception, and raise() raises it unchanged. Clears the thread's
// error indicator. Any thread may use the Status.
Status python_failure(const pybind11::error_already_set& error,
                      const std::string& where);

// Sets the Python exception for `status` and throws it.
[[noreturn]] void raise(const Status& status);

inline void check(const Status& status) {
  if (!status) raise(status);
}
template <class T>
T unwrap(Result<T>&& result) {
  if (!result) raise(result.error());
  return std::move(result).value();
}

// Calls f() -> PyObject* in a function that Python calls directly. If f()
// throws a C++ exception, sets a Python exception and returns null.
template <class F>
PyObject* null_on_error(F&& f) {
  try {
    return f();
  } catch (pybind11::error_already_set& e) {
    e.restore();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
  return nullptr;
}

}  // namespace nimble
