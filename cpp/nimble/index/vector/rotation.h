// The rotation of vectors before they are coded. It spreads every vector evenly
// over all dimensions, so that the signs of its numbers describe its direction.
// It depends on the number of dimensions only, so vectors of different files
// can be compared. docs/format/vector_index.md.
#pragma once

#include <cstdint>
#include <vector>

namespace nimble {

// Immutable. Thread-safe.
class Rotation {
 public:
  // REQUIRES: `padded` is a multiple of kVectorPadding.
  explicit Rotation(uint32_t padded);

  uint32_t padded() const { return padded_; }
  // Rotates `padded` numbers in place.
  void apply(float* values) const;

 private:
  uint32_t padded_;
  uint32_t power_;            // greatest power of two that is not above padded_
  float scale_;               // 1 / sqrt(power_)
  std::vector<float> signs_;  // of all rounds
};

}  // namespace nimble
