// KeyScalar: one value of a key column given by a caller (a lookup, a bound).
#pragma once

#include <array>
#include <span>

#include "nimble/base/status.h"
#include "nimble/key/key_column.h"
#include "nimble/memory/byte_buffer.h"
#include "nimble/types/field.h"

namespace nimble {

struct KeyScalar {
  enum class Kind : uint8_t {
    kNull,
    kBool,
    kInt,
    kUint,
    kFloat,
    kBytes,
    kWide
  };

  Kind kind = Kind::kNull;
  bool boolean = false;
  int64_t i = 0;
  uint64_t u = 0;
  double f = 0;
  ByteSpan bytes;                  // borrowed
  std::array<uint8_t, 32> wide{};  // little-endian two's complement

  static KeyScalar null() { return {}; }
  static KeyScalar from_bool(bool v);
  static KeyScalar from_int(int64_t v);
  static KeyScalar from_uint(uint64_t v);
  static KeyScalar from_double(double v);
  static KeyScalar from_bytes(ByteSpan v);
  static KeyScalar from_wide(const std::array<uint8_t, 32>& v);
  // The value of a column of `field` (fixed width, bool or bytes) in its stored
  // form: little-endian, a bool one byte. Bytes are borrowed.
  static KeyScalar from_value(const Field& field, ByteSpan value);
};

// How a value relates to those that a column can hold.
enum class ScalarFit : uint8_t {
  kExact,
  kBelow,      // smaller than every value: -300 for an int8 column
  kAbove,      // larger than every value
  kInexact,    // between two values: 0.1 for a float32 column
  kWrongType,  // not comparable: text for a number, wrong fixed size
};
ScalarFit fit_of(const KeyColumn& column, const KeyScalar& value);

// Appends marker and value bytes; invalid argument unless the fit is exact.
Status encode_scalar(const KeyColumn& column, const KeyScalar& value,
                     ByteBuffer* out);

// Appends marker and the encoded beginning of a text, binary or fixed-size
// value: what all encoded values that start with `start` start with.
Status encode_starts_with(const KeyColumn& column, ByteSpan start,
                          ByteBuffer* out);

// Exact conversions between half floats and doubles.
double half_to_double(uint16_t bits);
bool double_to_half(double v, uint16_t* bits);

}  // namespace nimble
