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
  // What sums of floats must be for rows that are certainly beyond a limit.
  struct Bound {
    // kL2: the squared distance is above `square`.
    float square = 0;
    // Else: the product is below offset + slope * length of the row.
    double offset = 0;
    double slope = 0;
  };
  Bound bound_of(double limit) const;
  // Whether the stored numbers can be used as floats where they are.
  bool is_in_place(const uint8_t* rows) const;
  // For each of `count` rows of floats, computes the squared distance (kL2), or
  // the product with the query and the squared length.
  void sum(const float* rows, uint64_t count, float* products,
           float* squares) const;
  // Returns false for sums that floats do not hold exactly enough.
  bool is_beyond(float product, float square, const Bound& bound) const;
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
