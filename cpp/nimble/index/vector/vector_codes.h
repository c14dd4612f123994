// Codes of vectors: one bit per dimension of the residual, which is the
// difference between a rotated row and the centroid of its list, and two
// numbers from which the distance to a query is estimated.
// docs/format/vector_index.md.
#pragma once

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

// Codes a row. `lane` is its place in its block of kVectorBlock rows, whose
// bytes begin at `block`. Rows of a block have separate bytes, so threads may
// code them at the same time.
// REQUIRES: the bytes of the lane are 0.
CodeNumbers encode_residual(VectorMetric metric, const float* rotated,
                            const float* centroid, uint32_t padded,
                            uint32_t lane, uint8_t* block);

// Codes a centroid by one byte per dimension. Returns the scale.
float encode_centroid(const float* centroid, uint32_t padded, int8_t* code);

// A rotated query, prepared for products with codes.
struct QueryCode {
  explicit QueryCode(const float* rotated, uint32_t padded);

  // For codes of rows: 16 values of 7 bits for each group of 4 dimensions.
  //   <bits, query> ~ table_scale * (sum of values) + table_offset
  std::vector<uint8_t> table;
  float table_scale;
  float table_offset;
  // For codes of centroids: query ~ scale * whole.
  std::vector<int16_t> whole;
  float scale;
  float norm;  // squared length
};

}  // namespace nimble
