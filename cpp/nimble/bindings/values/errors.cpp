#include "nimble/bindings/values/errors.h"

#include <cerrno>

#include "nimble/bindings/values/gil.h"

namespace py = pybind11;

namespace nimble {
namespace {

constexpr char kTooLargeName[] = "ArrayTooLargeError";

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

// Holds an exception while it passes through the core. The core may drop it
// without holding the GIL.
struct Raised {
  explicit Raised(py::object e) : exception(std::move(e)) {}
  ~Raised() { drop(&exception); }
  py::object exception;
};

}  // namespace

Status python_failure(const py::error_already_set& error,
                      const std::string& where) {
  py::object exception = error.value();
  if (error.trace()) {
    PyException_SetTraceback(exception.ptr(), error.trace().ptr());
  }
  return Status::io_error(where + ": " + error.what())
      .with_cause(std::make_shared<const Raised>(std::move(exception)));
}

void raise(const Status& status) {
  if (status.cause() != nullptr) {
    const auto& raised = *static_cast<const Raised*>(status.cause().get());
    PyErr_SetObject(
        reinterpret_cast<PyObject*>(Py_TYPE(raised.exception.ptr())),
        raised.exception.ptr());
    throw py::error_already_set();
  }
  const std::string message(status.message());
  if (status.code() == StatusCode::kIoError) {
    // Python chooses the subclass of OSError, such as FileNotFoundError, from
    // errno.
    errno = status.os_error() != 0 ? status.os_error() : EIO;
    PyErr_SetFromErrnoWithFilename(PyExc_OSError, message.c_str());
    throw py::error_already_set();
  }
  const bool private_type = status.code() == StatusCode::kTooLarge;
  const py::object type =
      private_type ? py::module_::import("nimblepy._core").attr(kTooLargeName)
                   : py::module_::import("nimblepy.errors")
                         .attr(class_of(status.code()));
  PyErr_SetString(type.ptr(), message.c_str());
  throw py::error_already_set();
}

// Declared in core_file.h, which depends on this file.
void register_errors(py::module_& m) {
  const py::object base =
      py::module_::import("nimblepy.errors").attr("InvalidArgumentError");
  PyObject* const type = PyErr_NewExceptionWithDoc(
      "nimblepy._core.ArrayTooLargeError",
      "Rows that one Arrow array cannot hold. Who asked reads fewer at a time; "
      "it is seen outside only where a single row is too large.",
      base.ptr(), nullptr);
  if (type == nullptr) throw py::error_already_set();
  m.attr(kTooLargeName) = py::reinterpret_steal<py::object>(type);
}

}  // namespace nimble
