// Groups vectors around centroids (k-means). The result depends on the vectors
// only, not on the number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "nimble/base/result.h"

namespace nimble {

// Random numbers, the same on every machine.
class RandomStream {
 public:
  explicit RandomStream(uint64_t seed) : state_(seed) {}
  uint64_t next();
  // A number below n.
  uint64_t below(uint64_t n);

 private:
  uint64_t state_;
};

// Returns `count` distinct numbers below `total`, ascending, or all numbers if
// there are not more.
std::vector<uint64_t> random_numbers(uint64_t total, uint64_t count,
                                     RandomStream* random);

struct ClusterOptions {
  uint32_t count = 1;  // of centroids
  uint32_t dimensions = 0;
  uint32_t iterations = 8;
  // Centroids to start from, at most `count`. The others are random vectors.
  std::vector<float> start;
  // The number of rows that each vector stands for. Empty: one.
  std::vector<float> weights;
  uint32_t threads = 1;
  std::function<Status()> poll;  // called between iterations; may be empty
};

// Trains centroids on vectors. Centroids that are near each other have near
// positions in the result.
// REQUIRES: there are at least `count` vectors.
Result<std::vector<float>> train_centroids(const std::vector<float>& vectors,
                                           const ClusterOptions& options);

}  // namespace nimble
