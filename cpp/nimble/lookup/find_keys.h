// find_keys: many encoded keys to file rows in one pass through the index.
#pragma once

#include <vector>

#include "nimble/base/row_range.h"
#include "nimble/key/key_buffer.h"
#include "nimble/lookup/cluster_index.h"
#include "nimble/lookup/index_lookup.h"

namespace nimble {

// Row ranges of whole keys, or of prefixes of keys (their first columns) if
// not `whole`: of one that no key begins with the empty range of its place.
// Probes are sorted once and groups and chunks opened once each;
// in a mapped file the cache misses of several probes overlap. `wanted`: as for
// ClusterCursor.
Result<LookupAnswer> find_keys(const ClusterIndex& index, const KeyBuffer& keys,
                               bool whole, const RowReader* wanted = nullptr);

// The same for keys that are sorted and hashed already, as
// IndexLookup::find_sorted() says.
Status find_sorted_keys(const ClusterIndex& index, const ProbeSpan& probes,
                        bool whole, const RowReader* wanted,
                        std::vector<FoundRange>* out);

}  // namespace nimble
