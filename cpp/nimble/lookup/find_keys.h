// find_keys: finds the file rows of many encoded keys in one pass through the
// index.
#pragma once

#include <vector>

#include "nimble/base/row_range.h"
#include "nimble/cursor/cluster_index.h"
#include "nimble/key/key_buffer.h"
#include "nimble/lookup/index_lookup.h"

namespace nimble {

// Finds the row ranges of whole keys or, if not `whole`, of key prefixes (the
// values of the first columns). An absent key gets an empty range at its
// position. Probes are sorted once, and each group and chunk is opened once. In
// a mapped file, the cache misses of several probes overlap. Other files are
// read in few rounds. `wanted`: see ClusterCursor. May block on reads.
Result<LookupAnswer> find_keys(const ClusterIndex& index, const KeyBuffer& keys,
                               bool whole, const RowReader* wanted = nullptr);

// Finds the first row whose key is >= each target, or num_rows(). Targets may
// be any bytes. May block on reads.
Status find_lower_bounds(const ClusterIndex& index, const KeyBuffer& targets,
                         std::vector<uint64_t>* out);

// Like find_keys(), for keys that are sorted and hashed already: see
// IndexLookup::find_sorted().
Status find_sorted_keys(const ClusterIndex& index, const ProbeSpan& probes,
                        bool whole, const RowReader* wanted,
                        std::vector<FoundRange>* out);

}  // namespace nimble
