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
#include <memory>
#include <span>
#include <vector>

#include "nimble/scan/nearest/nearest_options.h"

namespace nimble {

struct SearchPart;

struct NearestHit {
  float distance = 0;
  uint32_t part = 0;
  uint64_t row = 0;
};

using NearestHits = std::vector<std::vector<NearestHit>>;  // by query

// A search, prepared for its parts. Thread-safe.
class NearestSearch {
 public:
  // Borrows the indexes. May block on reads, for the filters of the parts.
  // REQUIRES: all indexes have the metric of later options.
  static Result<std::unique_ptr<const NearestSearch>> prepare(
      std::vector<NearestPart> parts, uint32_t dimensions);
  ~NearestSearch();

  std::span<const NearestPart> parts() const { return given_; }
  uint32_t dimensions() const { return dimensions_; }
  // Returns at most k hits for each query, nearest first, ties ordered by part
  // and row. `queries` has the vectors one after the other. May block on reads.
  // REQUIRES: numbers of queries are finite.
  Result<NearestHits> run(std::span<const double> queries,
                          const NearestOptions& options,
                          NearestStats* stats) const;

 private:
  NearestSearch(std::vector<NearestPart> parts, uint32_t dimensions);

  const std::vector<NearestPart> given_;
  const uint32_t dimensions_;
  std::vector<SearchPart> parts_;
};

}  // namespace nimble
