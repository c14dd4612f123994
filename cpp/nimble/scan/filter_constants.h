// Converts a comparison with Arrow values to a test of encoded values.
#pragma once

#include "nimble/base/result.h"
#include "nimble/encoding/core/predicate.h"
#include "nimble/types/array_view.h"

namespace nimble {

enum class TestOp : uint8_t {
  kEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kOneOf,     // of any number of values
  kPrefix,    // of byte strings
  kContains,  // byte strings that contain this one
};

// REQUIRES: `values` have the type of the tested column and are not null. There
// is one value, or any number for kOneOf. Floats compare as in IEEE 754.
Result<Predicate> make_predicate(TestOp op, const ArrayView& values);

}  // namespace nimble
