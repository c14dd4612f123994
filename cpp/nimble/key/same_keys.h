// Checks whether two columns encode keys in the same way. The encoded keys of
// one can then be used to search files with the other.
#pragma once

#include "nimble/key/key_column.h"

namespace nimble {

// Paths and names may differ.
inline bool have_same_keys(const KeyColumn& a, const KeyColumn& b) {
  // The format is not compared for byte strings, because Arrow has formats with
  // 4-byte and with 8-byte offsets for them.
  return (a.kind == KeyKind::kBytes || a.format == b.format) &&
         a.kind == b.kind && a.logical == b.logical && a.width == b.width &&
         a.order.descending == b.order.descending &&
         a.order.nulls_first == b.order.nulls_first;
}

}  // namespace nimble
