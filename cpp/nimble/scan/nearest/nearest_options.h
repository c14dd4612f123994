// Options and statistics of a search for nearest rows.
#pragma once

#include <cstdint>

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

// What a search did, summed over all queries.
struct NearestStats {
  uint64_t files_by_lists = 0;
  uint64_t files_compared = 0;
  // Files with lists that are compared because their lists do not reach the
  // wanted recall.
  uint64_t files_below_recall = 0;
  uint64_t lists = 0;  // in the files that are searched by lists
  uint64_t lists_probed = 0;
  uint64_t rows_allowed = 0;   // rows that may be returned, of all files
  uint64_t rows_scored = 0;    // estimated from codes
  uint64_t rows_compared = 0;  // compared with their vectors
};

}  // namespace nimble
