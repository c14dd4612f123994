// Writes columns of features as protobuf messages of Feast, so that a response
// is parsed once instead of being built from one object for each value.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "nimble/types/array_view.h"

namespace nimble {

// The row of a missing entity.
inline constexpr int64_t kNoRow = -1;

// Appends a field `results` of a GetOnlineFeaturesResponse: a FeatureVector
// with the values of a column at `rows`, followed by `rest`, the vector's other
// fields. The value of a null or of a missing entity is an empty message.
//
// `number` is the field of a Value that holds values of the column. If it is 0,
// the column has whole messages.
// REQUIRES: all rows are in the column or kNoRow.
Status append_feature_vector(const ArrayView& column, uint32_t number,
                             std::span<const int64_t> rows,
                             std::string_view rest, std::string* out);

}  // namespace nimble
