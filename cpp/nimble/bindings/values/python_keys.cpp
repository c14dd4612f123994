#include "nimble/bindings/values/python_keys.h"

#include <datetime.h>

#include <chrono>

#include "nimble/bindings/values/python_values.h"

namespace py = pybind11;

namespace nimble {
namespace {

int64_t days_of_date(PyObject* v) {
  using std::chrono::day, std::chrono::month, std::chrono::year;
  const std::chrono::sys_days days =
      year{PyDateTime_GET_YEAR(v)} /
      month{static_cast<unsigned>(PyDateTime_GET_MONTH(v))} /
      day{static_cast<unsigned>(PyDateTime_GET_DAY(v))};
  return days.time_since_epoch().count();
}

// Units per second of a format "ts?:...". Returns 0 for nanoseconds, because
// datetimes do not have them.
int64_t units_per_second(const KeyColumn& column) {
  const char unit = column.format[2];
  return unit == 's' ? 1 : unit == 'm' ? 1000 : unit == 'u' ? 1000000 : 0;
}

// Stores the UTC offset of a datetime with a time zone. Returns false if its
// time zone does not give an offset, so that it is naive.
bool utc_offset_of(PyObject* v, int64_t* micros) {
  *micros = 0;
  PyObject* const zone = PyDateTime_DATE_GET_TZINFO(v);
  if (zone == PyDateTime_TimeZone_UTC || zone == utc_zone()) return true;
  static PyObject* const utcoffset = PyUnicode_InternFromString("utcoffset");
  const auto offset = py::reinterpret_steal<py::object>(
      PyObject_CallMethodNoArgs(v, utcoffset));
  if (!offset) throw py::error_already_set();
  if (!PyDelta_Check(offset.ptr())) return false;
  const int64_t seconds =
      int64_t{PyDateTime_DELTA_GET_DAYS(offset.ptr())} * 86400 +
      PyDateTime_DELTA_GET_SECONDS(offset.ptr());
  *micros = seconds * 1000000 + PyDateTime_DELTA_GET_MICROSECONDS(offset.ptr());
  return true;
}

// Accepts a naive datetime for a column without a zone, and an aware datetime
// for a column with one.
bool timestamp_of(const KeyColumn& column, PyObject* v, KeyScalar* out) {
  const int64_t per_second = units_per_second(column);
  const bool zoned = column.format.size() > 4;
  const bool aware = PyDateTime_DATE_GET_TZINFO(v) != Py_None;
  int64_t offset = 0;
  if (per_second == 0 || zoned != aware ||
      (aware && !utc_offset_of(v, &offset))) {
    return false;
  }
  const int64_t seconds =
      days_of_date(v) * 86400 + PyDateTime_DATE_GET_HOUR(v) * 3600 +
      PyDateTime_DATE_GET_MINUTE(v) * 60 + PyDateTime_DATE_GET_SECOND(v);
  const int64_t micros =
      seconds * 1000000 + PyDateTime_DATE_GET_MICROSECOND(v) - offset;
  const int64_t micros_per_unit = 1000000 / per_second;
  if (micros % micros_per_unit != 0) return false;  // between two values
  *out = KeyScalar::from_int(micros / micros_per_unit);
  return true;
}

bool bytes_of(const KeyColumn& column, PyObject* v, KeyScalar* out) {
  if (column.logical == Logical::kText) {
    if (!PyUnicode_CheckExact(v)) return false;
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(v, &size);
    if (text == nullptr) {  // a lone surrogate
      PyErr_Clear();
      return false;
    }
    *out = KeyScalar::from_bytes(
        as_bytes(std::string_view(text, static_cast<size_t>(size))));
    return true;
  }
  if (!PyBytes_CheckExact(v)) return false;
  *out = KeyScalar::from_bytes(as_bytes(std::string_view(
      PyBytes_AS_STRING(v), static_cast<size_t>(PyBytes_GET_SIZE(v)))));
  return true;
}

// Recognizes numpy integers. Iterating over a numpy array returns them.
bool is_numpy_integer(PyObject* v) {
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<py::object>
      storage;
  const py::object& integer =
      storage
          .call_once_and_store_result(
              [] { return py::module_::import("numpy").attr("integer"); })
          .get_stored();
  return PyObject_TypeCheck(v, reinterpret_cast<PyTypeObject*>(integer.ptr()));
}

bool int_of(PyObject* v, KeyScalar* out) {
  int overflow = 0;
  if (PyLong_CheckExact(v)) {
    *out = KeyScalar::from_int(PyLong_AsLongLongAndOverflow(v, &overflow));
    return overflow == 0;
  }
  if (!is_numpy_integer(v)) return false;
  const auto exact = py::reinterpret_steal<py::object>(PyNumber_Index(v));
  if (!exact) {  // a timedelta64, which is a numpy.integer
    PyErr_Clear();
    return false;
  }
  return PyLong_CheckExact(exact.ptr()) && int_of(exact.ptr(), out);
}

// Converts a value by the column's logical type. It may be outside the column's
// range.
bool value_of(const KeyColumn& column, PyObject* v, KeyScalar* out) {
  switch (column.logical) {
    case Logical::kInt:
      return int_of(v, out);
    case Logical::kText:
    case Logical::kBinary:
    case Logical::kFixedBinary:
      return bytes_of(column, v, out);
    case Logical::kBool:
      if (!PyBool_Check(v)) return false;
      *out = KeyScalar::from_bool(v == Py_True);
      return true;
    case Logical::kFloat:
      if (!PyFloat_Check(v)) return false;  // numpy's doubles are floats
      *out = KeyScalar::from_double(PyFloat_AS_DOUBLE(v));
      return true;
    case Logical::kDate:
      if (column.width != 4 || !PyDate_CheckExact(v)) return false;
      *out = KeyScalar::from_int(days_of_date(v));
      return true;
    case Logical::kTimestamp:
      return PyDateTime_CheckExact(v) && timestamp_of(column, v, out);
    default:
      return false;
  }
}

}  // namespace

bool to_key_scalar(const KeyColumn& column, const py::handle& value,
                   KeyScalar* out) {
  if (PyDateTimeAPI == nullptr) PyDateTime_IMPORT;
  if (value.is_none()) {
    *out = KeyScalar::null();
    return true;
  }
  return value_of(column, value.ptr(), out) &&
         fit_of(column, *out) == ScalarFit::kExact;
}

bool to_key_scalars(const KeyEncoder& encoder, size_t width,
                    const py::handle& value, std::vector<KeyScalar>* out) {
  const auto& columns = encoder.columns();
  if (!PyTuple_CheckExact(value.ptr())) {
    out->resize(1);
    return to_key_scalar(columns[0], value, &out->front());
  }
  const auto n = static_cast<size_t>(PyTuple_GET_SIZE(value.ptr()));
  if (n > width) return false;
  out->resize(n);
  for (size_t i = 0; i < n; ++i) {
    PyObject* const item = PyTuple_GET_ITEM(value.ptr(), i);
    if (!to_key_scalar(columns[i], item, &(*out)[i])) return false;
  }
  return true;
}

}  // namespace nimble
