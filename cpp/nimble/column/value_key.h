// A byte string that two Arrow values share exactly if they are equal bit for
// bit, nulls included; self-delimiting, so those of fields can be joined.
#pragma once

#include <string>

#include "nimble/types/array_view.h"

namespace nimble {

void append_value_key(const ArrayView& view, int64_t row, std::string* out);

}  // namespace nimble
