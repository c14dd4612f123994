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
  // Returned for rows that are never near: see VectorFitness::kLeftOut.
  static constexpr double kNone = std::numeric_limits<double>::infinity();

  // `query` has finite numbers, and not only zeros under cosine.
  ExactDistance(VectorMetric metric, const VectorType& type,
                const double* query);

  // Computed with floats where these are exact enough to order rows.
  double of(const uint8_t* row);
  // Computed with doubles.
  double precise(const uint8_t* row);

 private:
  const VectorMetric metric_;
  const VectorType type_;
  std::vector<double> query_;
  std::vector<float> query_floats_;
  double query_norm_;  // length
  bool uses_floats_;
  std::vector<float> floats_;
  std::vector<double> doubles_;
};

}  // namespace nimble
