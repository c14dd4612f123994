// AsofFile: a file that as-of searches read.
#pragma once

#include <vector>

#include "nimble/base/row_bitmap.h"
#include "nimble/cursor/row_keys.h"
#include "nimble/lookup/index_lookup.h"
#include "nimble/open/open_file.h"

namespace nimble {

// A row number for "no row".
inline constexpr uint64_t kNoRow = UINT64_MAX;

// A file with an ordered index. Borrows all.
struct AsofFile {
  const OpenFile* file = nullptr;
  const IndexLookup* index = nullptr;
  bool is_cluster = false;
  // The columns of the index.
  const std::vector<KeyColumnSpec>* columns = nullptr;
  // Rows that are not found; null if no row is deleted.
  const RowBitmap* deleted = nullptr;
  // Reads the columns of the index that keys have; null: opened if needed.
  const RowKeys* row_keys = nullptr;

  bool is_deleted(uint64_t row) const {
    return deleted != nullptr && deleted->contains(row);
  }
};

}  // namespace nimble
