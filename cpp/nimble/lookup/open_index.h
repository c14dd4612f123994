// The indexes of a file as IndexLookup.
#pragma once

#include <memory>

#include "nimble/lookup/cluster_index.h"
#include "nimble/lookup/index_lookup.h"

namespace nimble {

// The cluster index of a file that has one. Borrows it.
std::unique_ptr<const IndexLookup> open_cluster_lookup(
    const ClusterIndex& cluster);
// Secondary index i of the footer: reads its root. FileReader::index() keeps
// what this opens.
Result<std::unique_ptr<const IndexLookup>> open_secondary_lookup(
    const OpenFile& file, size_t i);

}  // namespace nimble
