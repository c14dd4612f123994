// locate: the rows that keys have in many files, in one call.
#pragma once

#include <vector>

#include "nimble/base/row_bitmap.h"
#include "nimble/lookup/index_lookup.h"

namespace nimble {

// A file to be asked for some of the keys.
struct FileProbes {
  int64_t file = 0;  // its number in the answer
  const IndexLookup* index = nullptr;
  bool whole = true;  // the keys have all columns of the index
  ProbeSpan probes;
  // Rows that are no longer there; null: all are.
  const RowBitmap* deleted = nullptr;
};

// Rows of many keys in many files: key by key, the rows of a key by file and
// then as the file's index gives them.
struct LocatedRows {
  std::vector<uint64_t> keys;  // of each range
  std::vector<int64_t> files;
  std::vector<RowRange> ranges;
};

// Asks `files`, which are in ascending order and about keys of `probes`. Each
// key is hashed and sorted once for all of them, and an index asks its Bloom
// filter before it reads anything else.
Result<LocatedRows> locate(const KeyProbes& probes,
                           std::span<const FileProbes> files);

// The first row with a whole key that is not deleted, as
// IndexLookup::find_first() finds one.
Result<std::optional<uint64_t>> find_first_live(const IndexLookup& index,
                                                ByteSpan key,
                                                const RowReader* wanted,
                                                const RowBitmap& deleted);

}  // namespace nimble
