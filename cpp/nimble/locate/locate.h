// Finds the rows of keys in many files, in one call.
#pragma once

#include <vector>

#include "nimble/base/row_bitmap.h"
#include "nimble/lookup/index_lookup.h"

namespace nimble {

// A file, with the keys to search for in it.
struct FileProbes {
  int64_t file = 0;  // its number in the answer
  const IndexLookup* index = nullptr;
  bool whole = true;  // the keys have all columns of the index
  ProbeSpan probes;
  // The file's deleted rows; null if no row is deleted.
  const RowBitmap* deleted = nullptr;
};

// Rows of many keys in many files, ordered by key, then by file, then as the
// file's index returns them.
struct LocatedRows {
  std::vector<uint64_t> keys;  // for each range, its key
  std::vector<int64_t> files;
  std::vector<RowRange> ranges;
};

// Searches `files`. Each key is hashed and sorted once for all files, and an
// index checks its Bloom filter before it reads anything else. May block on
// reads.
// REQUIRES: `files` are ascending, and their keys are from `probes`.
Result<LocatedRows> locate(const KeyProbes& probes,
                           std::span<const FileProbes> files);

// Returns the first row that has this whole key and is not deleted. See
// IndexLookup::find_first().
Result<std::optional<uint64_t>> find_first_live(const IndexLookup& index,
                                                ByteSpan key,
                                                const RowReader* wanted,
                                                const RowBitmap& deleted);

}  // namespace nimble
