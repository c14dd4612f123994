// KeyRange: what a lookup asks for, as half-open ranges of encoded keys. All
// bounds come from the byte successor of an encoded prefix, never from a
// "next value": NaN, descending text, nulls and the largest value need no
// special case.
#pragma once

#include <optional>

#include "nimble/key/key_encoder.h"

namespace nimble {

// Turns a byte string into the smallest one that is greater than every string
// beginning with it; false where there is none (empty, or all bytes FF).
bool successor(ByteBuffer* key);

// Keys k with lower <= k < upper in byte order; a missing side has no limit.
struct KeyRange {
  std::optional<ByteBuffer> lower;
  std::optional<ByteBuffer> upper;

  bool empty() const;
  bool contains(ByteSpan key) const;
  static KeyRange none();  // holds no key
  static KeyRange all() { return {}; }
};

// All keys beginning with `prefix`: a whole key, the values of some leading
// columns, or those and the beginning of a text value.
KeyRange prefix_range(ByteSpan prefix);

// Rows whose leading key columns equal `values`. With `starts_with`, the last
// of them is text, binary or fixed-size binary and values begin with it.
// Values that the column cannot hold match nothing.
Result<KeyRange> equal_range(const KeyEncoder& encoder,
                             std::span<const KeyScalar> values,
                             bool starts_with = false);

struct KeyBound {
  std::vector<KeyScalar> values;  // of the first columns; none: no limit
  bool inclusive = true;
};

// Rows between two bounds in KEY order: for a descending column the larger
// value is the lower bound. A bound of fewer values than the key has columns
// stands for all rows with these leading values: included or excluded as one.
Result<KeyRange> key_order_range(const KeyEncoder& encoder,
                                 const KeyBound& lower, const KeyBound& upper);

// Rows between two bounds as VALUES: lower <= upper whatever the directions.
// Columns in which the bounds are equal may have any direction; the rest of
// the bound columns must share one, for rows between value bounds over mixed
// directions are not neighbours in the file (kInvalidArgument). Nulls are in no
// range unless a bound is null or `include_nulls`, which lets a missing bound
// reach the nulls of the column that it leaves open.
Result<KeyRange> value_range(const KeyEncoder& encoder, const KeyBound& lower,
                             const KeyBound& upper, bool include_nulls = false);

}  // namespace nimble
