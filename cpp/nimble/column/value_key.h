// Appends a byte string that is equal for two Arrow values if and only if they
// are equal bit for bit, nulls included. It is self-delimiting, so keys of
// several fields can be concatenated.
#pragma once

#include <string>

#include "nimble/types/array_view.h"

namespace nimble {

void append_value_key(const ArrayView& view, int64_t row, std::string* out);

}  // namespace nimble
