#include "nimble/bindings/values/python_values.h"

#include <datetime.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>

#include "nimble/base/bytes.h"
#include "nimble/key/value_bits.h"

namespace py = pybind11;

namespace nimble {
namespace {

int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

PyObject* out_of_range(const char* what) {
  PyErr_Format(PyExc_ValueError, "%s out of the range of Python's datetime",
               what);
  return nullptr;
}

int year_of(const std::chrono::year_month_day& d) { return int{d.year()}; }
int month_of(const std::chrono::year_month_day& d) {
  return static_cast<int>(unsigned{d.month()});
}
int day_of(const std::chrono::year_month_day& d) {
  return static_cast<int>(unsigned{d.day()});
}

// Returns the date `days` days after 1970-01-01, if its year is in Python's
// range.
std::optional<std::chrono::year_month_day> python_date(int64_t days) {
  using std::chrono::sys_days;
  constexpr sys_days kFirst{std::chrono::year{1} / 1 / 1};
  constexpr sys_days kLast{std::chrono::year{9999} / 12 / 31};
  if (days < kFirst.time_since_epoch().count() ||
      days > kLast.time_since_epoch().count()) {
    return std::nullopt;
  }
  return sys_days{std::chrono::days{static_cast<int>(days)}};
}

PyObject* decimal_class() {
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<py::object>
      storage;
  return storage
      .call_once_and_store_result(
          [] { return py::module_::import("decimal").attr("Decimal"); })
      .get_stored()
      .ptr();
}

// Returns the tzinfo that pyarrow uses for a zone, or null if pyarrow does not
// know the zone.
py::object zone_of(const std::string& name) {
  try {
    return py::module_::import("pyarrow.lib").attr("string_to_tzinfo")(name);
  } catch (py::error_already_set&) {
    return {};
  }
}

// Returns the zone in a format: "UTC" for "tsu:UTC".
std::string zone_name(const Field& timestamp) {
  return timestamp.format.substr(4);
}

}  // namespace

PyObject* utc_zone() {
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<py::object>
      storage;
  return storage.call_once_and_store_result([] { return zone_of("UTC"); })
      .get_stored()
      .ptr();
}

bool is_extension(const Field& f) {
  return std::any_of(f.metadata.begin(), f.metadata.end(), [](const auto& m) {
    return m.first == "ARROW:extension:name";
  });
}

bool ValueMaker::knows(const Field& f) {
  if (is_extension(f)) return false;
  switch (f.logical) {
    case Logical::kInt:
    case Logical::kBool:
    case Logical::kText:
    case Logical::kBinary:
      return true;
    case Logical::kFloat:
      return f.width >= 4;
    case Logical::kDate:
      return f.width == 4;
    case Logical::kTimestamp:
      return f.format[2] != 'n' &&
             (zone_name(f).empty() || zone_of(zone_name(f)));
    case Logical::kDecimal:
      return f.width <= 16;
    default:
      return false;
  }
}

ValueMaker::ValueMaker(const Field& f) : width_(f.width) {
  if (PyDateTimeAPI == nullptr) PyDateTime_IMPORT;
  switch (f.logical) {
    case Logical::kInt:
      kind_ = f.is_signed ? Kind::kSigned : Kind::kUnsigned;
      break;
    case Logical::kFloat:
      kind_ = f.width == 4 ? Kind::kFloat : Kind::kDouble;
      break;
    case Logical::kBool:
      kind_ = Kind::kBool;
      break;
    case Logical::kText:
      kind_ = Kind::kText;
      break;
    case Logical::kBinary:
      kind_ = Kind::kBinary;
      break;
    case Logical::kDate:
      kind_ = Kind::kDate;
      break;
    case Logical::kTimestamp:
      kind_ = Kind::kTimestamp;
      per_second_ = f.format[2] == 's'   ? 1
                    : f.format[2] == 'm' ? 1000
                                         : 1000000;
      if (!zone_name(f).empty()) zone_ = zone_of(zone_name(f));
      is_utc_ = zone_ && zone_.ptr() == utc_zone();
      break;
    default:
      kind_ = Kind::kDecimal;
      scale_ = std::atoi(f.format.c_str() + f.format.find(',') + 1);
      break;
  }
}

PyObject* ValueMaker::make(const uint8_t* p, size_t size) const {
  switch (kind_) {
    case Kind::kSigned:
      return PyLong_FromLongLong(load_signed(p, width_));
    case Kind::kUnsigned:
      return PyLong_FromUnsignedLongLong(
          width_ == 8 ? load<uint64_t>(p)
                      : static_cast<uint64_t>(load_signed(p, width_)) &
                            ((uint64_t{1} << (width_ * 8)) - 1));
    case Kind::kFloat:
      return PyFloat_FromDouble(double{load<float>(p)});
    case Kind::kDouble:
      return PyFloat_FromDouble(load<double>(p));
    case Kind::kBool:
      return PyBool_FromLong(*p);
    case Kind::kText:
      return PyUnicode_FromStringAndSize(reinterpret_cast<const char*>(p),
                                         static_cast<Py_ssize_t>(size));
    case Kind::kBinary:
      return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(p),
                                       static_cast<Py_ssize_t>(size));
    case Kind::kDate: {
      const auto date = python_date(load<int32_t>(p));
      if (!date) return out_of_range("date");
      return PyDate_FromDate(year_of(*date), month_of(*date), day_of(*date));
    }
    case Kind::kTimestamp:
      return make_timestamp(load<int64_t>(p));
    case Kind::kDecimal:
      return make_decimal(p);
  }
  return nullptr;
}

PyObject* ValueMaker::make_timestamp(int64_t value) const {
  const int64_t seconds = floor_div(value, per_second_);
  const int64_t fraction = value - seconds * per_second_;
  const int64_t days = floor_div(seconds, 86400);
  const auto rest = static_cast<int>(seconds - days * 86400);
  const auto date = python_date(days);
  if (!date) return out_of_range("timestamp");
  PyObject* const utc = PyDateTimeAPI->DateTime_FromDateAndTime(
      year_of(*date), month_of(*date), day_of(*date), rest / 3600,
      rest / 60 % 60, rest % 60,
      static_cast<int>(fraction * (1000000 / per_second_)),
      zone_ ? zone_.ptr() : Py_None, PyDateTimeAPI->DateTimeType);
  if (!zone_ || is_utc_ || utc == nullptr) return utc;
  static PyObject* const fromutc = PyUnicode_InternFromString("fromutc");
  PyObject* const local = PyObject_CallMethodOneArg(zone_.ptr(), fromutc, utc);
  Py_DECREF(utc);
  return local;
}

PyObject* ValueMaker::make_decimal(const uint8_t* p) const {
  __extension__ using Wide = __int128;
  __extension__ using UnsignedWide = unsigned __int128;
  const Wide v = width_ == 16 ? load<Wide>(p) : Wide{load_signed(p, width_)};
  const bool negative = v < 0;
  UnsignedWide u = static_cast<UnsignedWide>(v);
  if (negative) u = ~u + 1;
  // Writes digits from right to left. 2^127 has 39 digits.
  char digits[48];
  char* at = digits + sizeof digits;
  int count = 0;
  // Fast path for 64-bit numbers: dividing 128 bits by 10 is expensive.
  if (u >> 64 == 0 && scale_ >= 0 && scale_ <= 38) {
    for (auto low = static_cast<uint64_t>(u); low != 0 || count <= scale_;
         low /= 10) {
      if (count == scale_ && scale_ > 0) *--at = '.';
      *--at = static_cast<char>('0' + static_cast<int>(low % 10));
      ++count;
    }
    u = 0;
  }
  while (u != 0 || count <= scale_) {
    if (count == scale_ && scale_ > 0) *--at = '.';
    *--at = static_cast<char>('0' + static_cast<int>(u % 10));
    u /= 10;
    if (++count > 40) break;  // such scales use an exponent
  }
  if (scale_ > 38 || scale_ < 0) {
    // Such scales are rare. The text has unscaled digits and an exponent.
    std::string text = negative ? "-" : "";
    UnsignedWide w = static_cast<UnsignedWide>(v);
    if (negative) w = ~w + 1;
    std::string reversed;
    do {
      reversed += static_cast<char>('0' + static_cast<int>(w % 10));
      w /= 10;
    } while (w != 0);
    text.append(reversed.rbegin(), reversed.rend());
    text += "E" + std::to_string(-scale_);
    return PyObject_CallFunction(decimal_class(), "s", text.c_str());
  }
  if (negative) *--at = '-';
  PyObject* text = PyUnicode_FromStringAndSize(at, digits + sizeof digits - at);
  if (text == nullptr) return nullptr;
  PyObject* out = PyObject_CallOneArg(decimal_class(), text);
  Py_DECREF(text);
  return out;
}

}  // namespace nimble
