// KeyColumn: one column of a key, resolved against a schema: how its values
// are turned into bytes that compare like the values. docs/format/keys.md.
#pragma once

#include <string>
#include <vector>

#include "nimble/types/field.h"
#include "nimble/types/sort_order.h"

namespace nimble {

struct KeyColumnSpec {
  std::vector<int> path;  // child indices from the root struct downward
  SortOrder order;
};

enum class KeyKind : uint8_t {
  kBool,        // one byte, 1 or 2
  kSigned,      // 1, 2, 4, 8 bytes: ints, dates, times, small decimals
  kUnsigned,    // 1, 2, 4, 8 bytes
  kFloat,       // 2, 4, 8 bytes
  kWide,        // 16 or 32 bytes, two's complement: decimals
  kFixedBytes,  // bytes of one length
  kBytes,       // text and binary: escaped and terminated
};

struct KeyColumn {
  std::vector<int> path;
  std::string name;    // dotted path, for messages
  std::string format;  // Arrow format of the values (of a dictionary's too)
  SortOrder order;
  KeyKind kind = KeyKind::kSigned;
  Logical logical = Logical::kInt;
  uint32_t width = 0;  // value bytes; 0 for kBytes

  bool is_fixed() const { return kind != KeyKind::kBytes; }
  // The marker byte is never inverted: null placement knows no direction.
  uint8_t null_marker() const { return order.nulls_first ? 0 : 1; }
  uint8_t value_marker() const { return order.nulls_first ? 1 : 0; }
  uint8_t inversion() const { return order.descending ? 0xff : 0; }
};

// Refuses types without an order, with column path and type.
Result<KeyColumn> resolve_key_column(const Field& root,
                                     const KeyColumnSpec& spec);

// Kind and width of the values of `field` (its dictionary's where it has
// one); false where they have no order.
bool classify_key(const Field& field, KeyKind* kind, uint32_t* width);

}  // namespace nimble
