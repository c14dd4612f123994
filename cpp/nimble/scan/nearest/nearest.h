// Nearest rows of one or more files to queries.
//
// Few rows are compared one by one: the rows of a small file, of a part of the
// cluster key, or those that a filter leaves. Otherwise the lists of the files'
// vector indexes that are nearest to a query are searched, over all files
// together. Distances are estimated from codes, and the rows that may be
// nearest are compared with the vectors of the column.
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

// Returns the hits of each query, nearest first, ties by file and row: at most
// k. `queries` has one vector after the other. May block on reads.
// REQUIRES: all columns have vectors of `dimensions` numbers, and all indexes
// have the metric of the options. Numbers of queries are finite.
Result<std::vector<std::vector<NearestHit>>> find_nearest(
    std::span<const NearestPart> parts, std::span<const double> queries,
    uint32_t dimensions, const NearestOptions& options, NearestStats* stats);

}  // namespace nimble
