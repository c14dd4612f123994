// The distance of a query to stored vectors.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "nimble/index/vector/vector_elements.h"

namespace nimble {

// Keeps buffers, so it is not thread-safe.
class ExactDistance {
 public:
  ExactDistance(VectorMetric metric, const VectorType& type);

  // Sets the query, which has finite numbers, and not only zeros under cosine.
  void set_query(const double* query);
  // Stores the distance of a row, computed with doubles, and returns true, if
  // it is at most `limit`. Most rows that are farther are found with floats.
  // Returns false for rows that are never near (VectorFitness::kLeftOut).
  // REQUIRES: set_query() was called.
  bool is_within(const uint8_t* row, double limit, double* distance);

 private:
  // A distance computed with floats, less the most that it may be too great
  // by. -infinity if floats do not tell.
  double lower_bound(const uint8_t* row);
  bool compute(const uint8_t* row, double* distance);

  const VectorMetric metric_;
  const VectorType type_;
  std::vector<double> query_;
  std::vector<float> query_floats_;
  double query_norm_ = 0;      // length
  double query_rounding_ = 0;  // length of query_ - query_floats_
  bool uses_floats_ = false;
  std::vector<float> floats_;
  std::vector<double> doubles_;
};

}  // namespace nimble
