// KeyRange: the bounds of a lookup, as a half-open range of encoded keys. A
// bound is an encoded prefix or the next byte string after all strings with the
// prefix, not a "next value". NaN, descending text, nulls and the largest value
// therefore need no special case.
#pragma once

#include <optional>

#include "nimble/key/key_encoder.h"

namespace nimble {

// Replaces *key by the smallest byte string that is greater than all strings
// beginning with *key. Returns false if there is no such string, because *key
// is empty or all its bytes are FF.
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

// Returns the range of all keys that begin with `prefix`. The prefix may be a
// whole key, or the values of leading columns, optionally followed by the
// beginning of a text value.
KeyRange prefix_range(ByteSpan prefix);

// Returns the range of rows whose leading key columns equal `values`. With
// `starts_with`, the last value is a prefix of a text, binary or fixed-size
// binary column. If a value cannot be converted to the column's type, no row
// matches.
Result<KeyRange> equal_range(const KeyEncoder& encoder,
                             std::span<const KeyScalar> values,
                             bool starts_with = false);

// A bound given as values of the first key columns.
struct KeyBound {
  std::vector<KeyScalar> values;  // of the first columns; empty: no limit
  bool inclusive = true;
};

// Returns the rows between two bounds in KEY order: in a descending column, the
// larger value is the lower bound. If a bound has fewer values than the key has
// columns, all rows with these leading values are included or excluded
// together.
Result<KeyRange> key_order_range(const KeyEncoder& encoder,
                                 const KeyBound& lower, const KeyBound& upper);

// Returns the rows between two bounds as VALUES: lower <= upper in any sort
// direction. Columns with equal bounds may have any direction. The other bound
// columns must all have the same direction. Otherwise the rows are not
// contiguous in the file (kInvalidArgument).
// Nulls are excluded unless a bound is null or `include_nulls` is set. With
// `include_nulls`, a missing bound includes the nulls of the first column that
// it does not limit.
Result<KeyRange> value_range(const KeyEncoder& encoder, const KeyBound& lower,
                             const KeyBound& upper, bool include_nulls = false);

}  // namespace nimble
