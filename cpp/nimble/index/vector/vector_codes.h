// Codes of vectors. The residual is the difference between a rotated row and
// the centroid of its list. A code has one bit per dimension of the residual,
// and two numbers from which the distance to a query is estimated.
// docs/format/vector_index.md.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "nimble/index/vector/vector_layout.h"

namespace nimble {

// The two numbers of a row. With s = <bits - 1/2, rotated query>:
//   distance(query, row) ~ distance(query, centroid) + offset - 2 scale s
struct CodeNumbers {
  float scale = 0;
  float offset = 0;
};

// Codes a row. `lane` is its position in its block of kVectorBlock rows, whose
// bytes begin at `block`. Each row of a block has bytes of its own, so threads
// may code them at the same time.
// REQUIRES: the bytes of the lane are 0.
CodeNumbers encode_residual(VectorMetric metric, const float* rotated,
                            const float* centroid, uint32_t padded,
                            uint32_t lane, uint8_t* block);

// The mean error of an estimated product <r, query - c> is .75 / sqrt(n) of the
// two lengths' product, for n dimensions. The length of a residual r is about
// .4 sqrt(n) of its scale. So the error is .3 scale |query - c|. A search
// assumes that an estimate is too large by at most twice this error.
constexpr float kGreatestError = 2 * 0.3f;

// The key by which a search orders a row: its estimated distance minus the
// greatest error. Computed without the rounding of a QueryCode.
// REQUIRES: all vectors are rotated.
float search_key(VectorMetric metric, const float* query, const float* row,
                 const float* centroid, uint32_t padded);

// Number of rows with the least keys whose vectors a search for k neighbours
// compares first.
constexpr uint64_t first_candidates(uint64_t k) {
  return k <= 100 ? std::max<uint64_t>(200, 20 * k) : 2000 + 4 * (k - 100);
}
// The maximum. Many are needed if distances differ little, as in random
// vectors.
constexpr uint64_t most_candidates(uint64_t k) {
  return 16 * first_candidates(k);
}

// Codes a centroid with one byte per dimension. Returns the scale.
float encode_centroid(const float* centroid, uint32_t padded, int8_t* code);

// A rotated query, prepared for products with codes. Reusing the object reuses
// its memory.
class QueryCode {
 public:
  // `levels` is 1 or 2. Values of a group of 4 dimensions are rounded to one or
  // two tables of 7 bits each; two are more exact.
  void set(const float* rotated, uint32_t padded, uint32_t levels = 1);

  uint32_t levels() const { return levels_; }
  // For codes of rows: 16 values for each group of 4 dimensions. Let sum be 128
  // * (the sum of values of level 0) + (the sum of values of level 1). Then
  // <bits, query> ~ table_scale * sum + table_offset. With one level, sum is
  // the sum of its values.
  const uint8_t* table(uint32_t level) const { return tables_[level].data(); }
  float table_scale() const { return table_scale_; }
  float table_offset() const { return table_offset_; }
  // The typical error of <bits, query>.
  float table_error() const;
  // Squared length.
  float norm() const { return norm_; }
  // The approximate distance to a centroid: squared Euclidean, or minus the
  // product. `norm` is the centroid's squared length, and `scale` is the scale
  // of its code.
  float centroid_distance(VectorMetric metric, const int8_t* code, float scale,
                          float norm) const;

 private:
  uint32_t padded_ = 0;
  uint32_t levels_ = 1;
  std::vector<float> sums_;
  std::vector<float> least_;
  std::vector<uint8_t> tables_[2];
  float table_scale_ = 1;
  float table_offset_ = 0;
  // For codes of centroids: query ~ scale_ * whole_.
  std::vector<int16_t> whole_;
  float scale_ = 1;
  float norm_ = 0;
};

}  // namespace nimble
