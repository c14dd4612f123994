#include "nimble/bindings/errors.h"

#include <cerrno>

namespace py = pybind11;

namespace nimble {
namespace {

const char* class_of(StatusCode code) {
  switch (code) {
    case StatusCode::kCorrupt:
      return "CorruptFileError";
    case StatusCode::kUnsupportedVersion:
      return "UnsupportedVersionError";
    case StatusCode::kNotFound:
      return "IndexUnavailableError";
    case StatusCode::kKeyOrder:
      return "KeyOrderError";
    case StatusCode::kDuplicateKey:
      return "DuplicateKeyError";
    default:
      return "InvalidArgumentError";
  }
}

}  // namespace

void raise(const Status& status) {
  // A Python exception that passed through the core keeps its own form.
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  const std::string message(status.message());
  if (status.code() == StatusCode::kIoError) {
    // OSError(errno, text, path) becomes FileNotFoundError and so on.
    errno = status.os_error() != 0 ? status.os_error() : EIO;
    PyErr_SetFromErrnoWithFilename(PyExc_OSError, message.c_str());
    throw py::error_already_set();
  }
  const py::object type =
      py::module_::import("nimblepy.errors").attr(class_of(status.code()));
  PyErr_SetString(type.ptr(), message.c_str());
  throw py::error_already_set();
}

}  // namespace nimble
