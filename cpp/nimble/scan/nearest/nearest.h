// Finds the rows of one or more files that are nearest to queries.
//
// If there are few rows, each is compared. They are the rows of a small file,
// of a range of cluster keys, or those that pass a filter. Otherwise the search
// uses the files' vector indexes. It searches the lists nearest to a query,
// over all files together. Distances are estimated from codes. The rows that
// may be nearest are compared with the vectors of the column.
// docs/format/vector_index.md.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nimble/scan/nearest/nearest_options.h"

namespace nimble {

struct NearestHit {
  float distance = 0;
  uint32_t part = 0;
  uint64_t row = 0;
};

// Returns at most k hits for each query, nearest first, ties ordered by file
// and row. `queries` has the vectors one after the other. May block on reads.
// REQUIRES: all columns have vectors of `dimensions` numbers. All indexes have
// the metric of the options. Numbers of queries are finite.
Result<std::vector<std::vector<NearestHit>>> find_nearest(
    std::span<const NearestPart> parts, std::span<const double> queries,
    uint32_t dimensions, const NearestOptions& options, NearestStats* stats);

}  // namespace nimble
