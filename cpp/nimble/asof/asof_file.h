// AsofFile: a file for as-of searches.
#pragma once

#include <vector>

#include "nimble/base/row_bitmap.h"
#include "nimble/cursor/row_keys.h"
#include "nimble/lookup/index_lookup.h"
#include "nimble/open/open_file.h"

namespace nimble {

// Stands for "no row".
inline constexpr uint64_t kNoRow = UINT64_MAX;

// A file with an ordered index. Borrows its members.
struct AsofFile {
  const OpenFile* file = nullptr;
  const IndexLookup* index = nullptr;
  bool is_cluster = false;
  // The columns of the index.
  const std::vector<KeyColumnSpec>* columns = nullptr;
  // The deleted rows, which are never found. Null if no row is deleted.
  const RowBitmap* deleted = nullptr;
  // Reads the key columns of rows. If null, it is opened when it is needed.
  const RowKeys* row_keys = nullptr;

  bool is_deleted(uint64_t row) const {
    return deleted != nullptr && deleted->contains(row);
  }
};

}  // namespace nimble
