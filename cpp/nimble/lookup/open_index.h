// Opens the indexes of a file as IndexLookup.
#pragma once

#include <memory>

#include "nimble/cursor/cluster_index.h"
#include "nimble/lookup/index_lookup.h"

namespace nimble {

// Returns the cluster index of a file. Borrows `cluster`.
// REQUIRES: the file has a cluster index.
std::unique_ptr<const IndexLookup> open_cluster_lookup(
    const ClusterIndex& cluster);
// Opens secondary index i of the footer and reads its root. Borrows `file`.
// Most callers use FileReader::index(), which caches the result.
Result<std::unique_ptr<const IndexLookup>> open_secondary_lookup(
    const OpenFile& file, size_t i);

}  // namespace nimble
