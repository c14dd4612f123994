// Arithmetic of vectors of floats: products, distances, and the nearest of many
// centroids. Sums have a fixed order, so results do not depend on threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nimble/memory/aligned_buffer.h"

namespace nimble {

float dot_product(const float* a, const float* b, uint64_t n);
float squared_distance(const float* a, const float* b, uint64_t n);
// Stores squared_distance(a, row, n) for `count` consecutive rows.
void squared_distances(const float* a, const float* rows, uint64_t n,
                       uint64_t count, float* out);
// Stores the products of `a` and `count` consecutive rows, and the squared
// lengths of the rows.
void dots_and_norms(const float* a, const float* rows, uint64_t n,
                    uint64_t count, float* products, float* norms);
double dot_product(const double* a, const double* b, uint64_t n);
double squared_distance(const double* a, const double* b, uint64_t n);
// The sum of products of integers.
// REQUIRES: the sum fits in an int32_t.
int32_t dot_product(const int8_t* a, const int16_t* b, uint64_t n);

// Vectors, transposed in panels of 16 for products with many rows.
class VectorPanels {
 public:
  static constexpr uint32_t kPanel = 16;
  // Rows per call of products(). More rows use the cache better.
  static constexpr uint32_t kRows = 96;
  // Number of rows in one task of a thread.
  static constexpr uint64_t kBlockRows = 10 * kRows;

  // `vectors` has `count` vectors of `dimensions` numbers.
  VectorPanels(const float* vectors, uint32_t count, uint32_t dimensions);

  uint32_t count() const { return count_; }
  // Squared length of a vector.
  float norm(uint32_t i) const { return norms_[i]; }
  // For each row, stores the index of the vector with the least squared
  // distance, the first one if several are equally near. `rows` has `num_rows`
  // rows.
  void nearest(const float* rows, uint64_t num_rows, uint32_t* out) const;
  // Calls visit(row, first, products) with the products of a row and the 16
  // vectors from `first` on. Vectors from count() on are all zeros.
  template <class Visit>
  void products(const float* rows, uint64_t num_rows, Visit&& visit) const {
    alignas(64) float out[6 * kPanel];
    for (uint64_t begin = 0; begin < num_rows; begin += kRows) {
      const uint64_t end = begin + kRows < num_rows ? begin + kRows : num_rows;
      for (uint32_t first = 0; first < count_; first += kPanel) {
        for (uint64_t row = begin; row < end; row += 6) {
          const auto n = static_cast<uint32_t>(end - row < 6 ? end - row : 6);
          multiply(rows + row * dimensions_, n, first, out);
          for (uint32_t i = 0; i < n; ++i) {
            visit(row + i, first, out + i * kPanel);
          }
        }
      }
    }
  }

 private:
  // Products of up to 6 rows and one panel.
  void multiply(const float* rows, uint32_t num_rows, uint32_t first,
                float* out) const;

  uint32_t count_;
  uint32_t dimensions_;
  AlignedBuffer panels_;
  std::vector<float> norms_;
};

}  // namespace nimble
