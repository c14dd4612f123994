// KeyColumn: one column of a key, resolved against a schema. It says how values
// become bytes that compare like the values. docs/format/keys.md.
#pragma once

#include <string>
#include <vector>

#include "nimble/base/bytes.h"
#include "nimble/types/field.h"
#include "nimble/types/sort_order.h"

namespace nimble {

// A key column as requested by a caller.
struct KeyColumnSpec {
  std::vector<int> path;  // child indexes, from the root struct
  SortOrder order;
};

enum class KeyKind : uint8_t {
  kBool,        // one byte, 1 or 2
  kSigned,      // 1, 2, 4, 8 bytes: ints, dates, times, small decimals
  kUnsigned,    // 1, 2, 4, 8 bytes
  kFloat,       // 2, 4, 8 bytes
  kWide,        // 16 or 32 bytes, two's complement: decimals
  kFixedBytes,  // byte strings of equal length
  kBytes,       // text and binary: escaped and terminated
};

struct KeyColumn {
  std::vector<int> path;
  std::string name;    // dotted path, for messages
  std::string format;  // Arrow format of the values
  SortOrder order;
  KeyKind kind = KeyKind::kSigned;
  Logical logical = Logical::kInt;
  uint32_t width = 0;  // bytes per value; 0 for kBytes

  bool is_fixed() const { return kind != KeyKind::kBytes; }
  // The marker byte is never inverted, because the position of nulls does not
  // depend on the direction.
  uint8_t null_marker() const { return order.nulls_first ? 0 : 1; }
  uint8_t value_marker() const { return order.nulls_first ? 1 : 0; }
  uint8_t inversion() const { return order.descending ? 0xff : 0; }
  // Size of this column's value at the beginning of `key`, or 0 if `key`
  // contains only a part of the value.
  size_t size_in(ByteSpan key) const;
};

// Resolves a column. Fails for types without an order, with the column path and
// the type.
Result<KeyColumn> resolve_key_column(const Field& root,
                                     const KeyColumnSpec& spec);

// Sets the kind and width of the values of `field`, or of its dictionary.
// Returns false if the values have no order.
bool classify_key(const Field& field, KeyKind* kind, uint32_t* width);

}  // namespace nimble
