// Are keys of two columns encoded alike, so that one encoded key is good for
// both? What asking many files with the same keys rests on.
#pragma once

#include "nimble/key/key_column.h"

namespace nimble {

// Paths and names may differ.
inline bool have_same_keys(const KeyColumn& a, const KeyColumn& b) {
  // Byte strings may differ in how Arrow has their offsets.
  return (a.kind == KeyKind::kBytes || a.format == b.format) &&
         a.kind == b.kind && a.logical == b.logical && a.width == b.width &&
         a.order.descending == b.order.descending &&
         a.order.nulls_first == b.order.nulls_first;
}

}  // namespace nimble
