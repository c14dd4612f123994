// The numbers of stored vectors, converted to floats.
#pragma once

#include <cstdint>

#include "nimble/base/result.h"
#include "nimble/index/vector/vector_layout.h"
#include "nimble/types/field.h"

namespace nimble {

enum class VectorElement : uint8_t {
  kHalf,
  kFloat,
  kDouble,
  kInt8,
  kUint8,
  kInt32
};
// Whether floats may round the numbers.
inline bool is_wide(VectorElement element) {
  return element == VectorElement::kDouble || element == VectorElement::kInt32;
}

// A column of vectors: fixed-size lists of numbers.
struct VectorType {
  VectorElement element = VectorElement::kFloat;
  uint32_t dimensions = 0;

  // Fails for other types.
  static Result<VectorType> of(const Field& field);
  uint32_t element_bytes() const;
  uint64_t row_bytes() const { return uint64_t{dimensions} * element_bytes(); }
};

void to_floats(VectorElement element, const uint8_t* values, uint64_t count,
               float* out);
void to_doubles(VectorElement element, const uint8_t* values, uint64_t count,
                double* out);

enum class VectorFitness : uint8_t {
  kFine,
  // The vector has a number that is not finite, or is all zeros under cosine.
  // Searches never return it.
  kLeftOut,
  // The vector is finite, but its squared length is not a normal float. Lists
  // cannot contain it.
  kTooLong,
};
VectorFitness fitness_of(VectorMetric metric, const VectorType& type,
                         const uint8_t* row);

}  // namespace nimble
