// KeyRange: a lookup's bounds, as a half-open range of encoded keys. All bounds
// are byte successors of encoded prefixes, not "next values". NaN, descending
// text, nulls and the largest value therefore need no special case.
#pragma once

#include <optional>

#include "nimble/key/key_encoder.h"

namespace nimble {

// Replaces *key by the smallest byte string that is greater than all strings
// beginning with *key. Returns false if that does not exist (*key is empty, or
// all bytes are FF).
bool successor(ByteBuffer* key);

// The keys k with lower <= k < upper in byte order. A missing bound means no
// limit.
struct KeyRange {
  std::optional<ByteBuffer> lower;
  std::optional<ByteBuffer> upper;

  bool empty() const;
  bool contains(ByteSpan key) const;
  static KeyRange none();  // contains no key
  static KeyRange all() { return {}; }
};

// All keys that begin with `prefix`, which may be a whole key, the values of
// leading columns, or those followed by the beginning of a text value.
KeyRange prefix_range(ByteSpan prefix);

// The rows whose leading key columns equal `values`. With `starts_with`, the
// last value is a prefix of a text, binary or fixed-size binary column. Values
// that cannot be converted to the column's type match no row.
Result<KeyRange> equal_range(const KeyEncoder& encoder,
                             std::span<const KeyScalar> values,
                             bool starts_with = false);

// A bound given as values of the first key columns.
struct KeyBound {
  std::vector<KeyScalar> values;  // of the first columns; empty: no limit
  bool inclusive = true;
};

// The rows between two bounds in KEY order: in a descending column, the larger
// value is the lower bound. A bound with fewer values than key columns stands
// for all rows with these leading values. They are included or excluded
// together.
Result<KeyRange> key_order_range(const KeyEncoder& encoder,
                                 const KeyBound& lower, const KeyBound& upper);

// The rows between two bounds as VALUES: lower <= upper in any sort direction.
// Columns with equal bounds may have any direction. The other bound columns
// must all have the same direction, else the rows are not contiguous in the
// file (kInvalidArgument). Nulls are excluded unless a bound is null or
// `include_nulls` is set. With `include_nulls`, a missing bound includes the
// nulls of the first column that it does not limit.
Result<KeyRange> value_range(const KeyEncoder& encoder, const KeyBound& lower,
                             const KeyBound& upper, bool include_nulls = false);

}  // namespace nimble
