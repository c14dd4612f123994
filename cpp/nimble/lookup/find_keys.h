// find_keys: many encoded keys to file rows in one pass through the index.
#pragma once

#include <vector>

#include "nimble/base/row_range.h"
#include "nimble/key/key_buffer.h"
#include "nimble/reader/file_reader.h"

namespace nimble {

class RowReader;  // row_reader.h

// What find_keys() found of each probe.
struct FoundKeys {
  std::vector<RowRange> ranges;  // in the order of the probes
  // The probes in the order of their keys: ranges of equal probes are equal,
  // others disjoint and ascending.
  std::vector<uint64_t> order;
};

// Row ranges of whole keys, or of prefixes of keys (their first columns) if
// not `whole`: of one that no key begins with the empty range of its place.
// Probes are sorted once and groups and chunks opened once each;
// in a mapped file the cache misses of several probes overlap. `wanted`: as for
// KeyCursor.
Result<FoundKeys> find_keys(const FileReader& file, const KeyBuffer& keys,
                            bool whole, const RowReader* wanted = nullptr);

// The ranges alone.
inline Status find_keys(const FileReader& file, const KeyBuffer& keys,
                        bool whole, std::vector<RowRange>* out) {
  NIMBLE_ASSIGN_OR_RETURN(FoundKeys found, find_keys(file, keys, whole));
  *out = std::move(found.ranges);
  return Status::ok();
}

}  // namespace nimble
