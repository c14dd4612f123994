// KeyScalar: a value for a key column that a caller gives, for a lookup or a
// bound.
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
  // Converts a stored value of a column of `field`, which has fixed-width
  // values, bools or byte strings. Fixed-width values are little-endian, and a
  // bool is one byte. Borrows byte strings.
  static KeyScalar from_value(const Field& field, ByteSpan value);
};

// How a value relates to the values that a column can represent.
enum class ScalarFit : uint8_t {
  // The column can represent the value.
  kExact,
  kBelow,      // below all values: -300 for an int8 column
  kAbove,      // above all values
  kInexact,    // between two values: 0.1 for a float32 column
  kWrongType,  // not comparable: text for a number, wrong fixed size
};
ScalarFit fit_of(const KeyColumn& column, const KeyScalar& value);

// Appends marker and value bytes. Fails with kInvalidArgument unless fit_of()
// is kExact.
Status encode_scalar(const KeyColumn& column, const KeyScalar& value,
                     ByteBuffer* out);

// Appends the marker and the encoded beginning of a text, binary or fixed-size
// value. All encoded values that start with `start` have this prefix.
Status encode_starts_with(const KeyColumn& column, ByteSpan start,
                          ByteBuffer* out);

// Converts between half floats and doubles. double_to_half() returns false if
// the result is not exact.
double half_to_double(uint16_t bits);
bool double_to_half(double v, uint16_t* bits);

}  // namespace nimble
