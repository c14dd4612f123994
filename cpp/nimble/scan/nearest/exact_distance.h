// The distance of a query to stored vectors.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "nimble/index/vector/vector_elements.h"
#include "nimble/scan/nearest/nearest_rows.h"

namespace nimble {

// Keeps buffers, so it is not thread-safe.
class ExactDistance {
 public:
  ExactDistance(VectorMetric metric, const VectorType& type);

  // Sets the query. Its numbers are finite, and under cosine not all zero.
  void set_query(const double* query);
  // If the distance of a row is at most `limit`, stores it, computed with
  // doubles, and returns true. Floats are enough to exclude most rows that are
  // farther. Returns false for vectors that searches never return
  // (VectorFitness::kLeftOut).
  // REQUIRES: set_query() was called.
  bool is_within(const uint8_t* row, double limit, double* distance);
  // Adds the rows that are within the limit of `nearest`. `rows` has the
  // vectors of `count` rows, one after the other. `first` is the row number of
  // the first one in the part.
  // REQUIRES: set_query() was called.
  void add_nearest(const uint8_t* rows, uint64_t count, uint32_t part,
                   uint64_t first, NearestRows* nearest);

 private:
  // A distance computed with floats, minus the largest possible error. Returns
  // -infinity if floats are not exact enough.
  double lower_bound(const uint8_t* row);
  // Like lower_bound(), for a squared distance.
  double lower_bound_of(double square) const;
  // Returns a bound for squared distances: above it, lower_bound_of() exceeds
  // `limit`, if floats are exact enough.
  float beyond(double limit) const;
  // The largest possible error of a sum of vector_math.h, relative to the sum
  // of magnitudes: the number of rounded steps, times 2^-24.
  double rounding() const;
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
