// Single values as Python objects, as pyarrow's as_py() gives them.
#pragma once

#include <pybind11/pybind11.h>

#include "nimble/types/field.h"

namespace nimble {

// Does the field have an extension type, whose values have objects of their
// own?
bool is_extension(const Field& field);

// The tzinfo that values of the zone "UTC" have; null where pyarrow knows none.
PyObject* utc_zone();

// Makes the Python objects of one type without going through Arrow; types
// that it does not know are left to pyarrow.
class ValueMaker {
 public:
  // Types that make() knows: integers, floats, bool, text, binary, dates,
  // timestamps down to microseconds, decimals up to 128 bits; no extension
  // types, which have objects of their own.
  static bool knows(const Field& field);

  ValueMaker() = default;
  explicit ValueMaker(const Field& field);

  // A new reference, or null with a Python error set. `value` is a
  // fixed-width value (bool: one byte), or the bytes of a string.
  PyObject* make(const uint8_t* value, size_t size) const;

 private:
  enum class Kind : uint8_t {
    kSigned,
    kUnsigned,
    kFloat,
    kDouble,
    kBool,
    kText,
    kBinary,
    kDate,
    kTimestamp,
    kDecimal
  };

  PyObject* make_timestamp(int64_t value) const;
  PyObject* make_decimal(const uint8_t* value) const;

  Kind kind_ = Kind::kSigned;
  uint32_t width_ = 8;
  int64_t per_second_ = 1;  // timestamps: units a second; dates: units a day
  int32_t scale_ = 0;
  pybind11::object zone_;  // tzinfo of timestamps; null: they have none
  bool is_utc_ = false;    // `zone_` is that of UTC: nothing to convert
};

}  // namespace nimble
