// From a comparison with Arrow values to the test that encodings understand.
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
  kOneOf,   // of any number of values
  kPrefix,  // of byte strings
};

// `values` are of the tested column's type, one of them or for kOneOf any
// number, none of them null. Floats compare as IEEE 754 says.
Result<Predicate> make_predicate(TestOp op, const ArrayView& values);

}  // namespace nimble
