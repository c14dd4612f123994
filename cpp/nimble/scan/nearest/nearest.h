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
#include <memory>
#include <span>
#include <vector>

#include "nimble/base/row_bitmap.h"
#include "nimble/scan/nearest/vector_index.h"
#include "nimble/scan/selection.h"

namespace nimble {

// One file. `scan.output` has one column, of vectors. Borrows the rest.
struct NearestPart {
  ScanPart scan;
  const VectorIndex* index = nullptr;  // null: all rows are compared
  const RowBitmap* deleted = nullptr;  // rows that are not returned
};

struct NearestOptions {
  VectorMetric metric = VectorMetric::kL2;
  uint64_t k = 10;
  double recall = 0.95;
  bool exact = false;  // compare all rows
  uint32_t threads = 1;
};

struct NearestHit {
  float distance = 0;
  uint32_t part = 0;
  uint64_t row = 0;
};

// What a search did, summed over all queries.
struct NearestStats {
  uint64_t files_by_lists = 0;
  uint64_t files_compared = 0;
  uint64_t lists = 0;  // in the files that are searched by lists
  uint64_t lists_probed = 0;
  uint64_t rows_allowed = 0;   // that may be returned, of all files
  uint64_t rows_scored = 0;    // estimated from codes
  uint64_t rows_compared = 0;  // with their vectors
};

// Returns the hits of each query, nearest first, ties by file and row: at most
// k. `queries` has one vector after the other. May block on reads.
// REQUIRES: all columns have vectors of `dimensions` numbers, and all indexes
// have the metric of the options. Numbers of queries are finite.
Result<std::vector<std::vector<NearestHit>>> find_nearest(
    std::span<const NearestPart> parts, std::span<const double> queries,
    uint32_t dimensions, const NearestOptions& options, NearestStats* stats);

}  // namespace nimble
