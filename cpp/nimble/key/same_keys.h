// Whether keys of two columns have the same encoding, so that the same encoded
// keys can be used for several files. Paths and names may differ.
#pragma once

#include "nimble/key/key_column.h"

namespace nimble {

// Paths and names may differ.
inline bool have_same_keys(const KeyColumn& a, const KeyColumn& b) {
  // Byte strings may have different offset widths in Arrow.
  return (a.kind == KeyKind::kBytes || a.format == b.format) &&
         a.kind == b.kind && a.logical == b.logical && a.width == b.width &&
         a.order.descending == b.order.descending &&
         a.order.nulls_first == b.order.nulls_first;
}

}  // namespace nimble
