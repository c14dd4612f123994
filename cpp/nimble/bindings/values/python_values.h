// Converts single values to Python objects, like pyarrow's as_py().
#pragma once

#include <pybind11/pybind11.h>

#include "nimble/types/field.h"

namespace nimble {

// Whether the field has an extension type. Values of such types are objects of
// their own Python type.
bool is_extension(const Field& field);

// Returns the tzinfo of the zone "UTC", or null if pyarrow does not know the
// zone. The result is borrowed.
PyObject* utc_zone();

// Creates Python objects of one type without using Arrow. pyarrow converts
// values of types that it does not support. Needs the GIL.
class ValueMaker {
 public:
  // Whether make() supports the type: integers, floats, bool, text, binary,
  // dates, timestamps down to microseconds, and decimals up to 128 bits.
  // Extension types are not supported.
  static bool knows(const Field& field);

  ValueMaker() = default;
  explicit ValueMaker(const Field& field);

  // Returns a new reference, or null with a Python error set. `value` is a
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
  int64_t per_second_ = 1;  // timestamps: units per second; dates: per day
  int32_t scale_ = 0;
  pybind11::object zone_;  // tzinfo of timestamps; null: no zone
  bool is_utc_ = false;    // `zone_` is UTC: no conversion
};

}  // namespace nimble
