// Converts Python values to key values, if they have an exact equivalent in the
// column's type. This includes numpy's integers and doubles. All other values
// (other kinds of numbers, values outside the column's range, Arrow scalars)
// are left to nimblepy/rows/keys.py, so that coercion happens in one place.
#pragma once

#include <pybind11/pybind11.h>

#include "nimble/key/key_encoder.h"
#include "nimble/key/key_scalar.h"

namespace nimble {

// Returns false if keys.py must convert the value. None becomes null. Text and
// bytes are borrowed from `value`.
bool to_key_scalar(const KeyColumn& column, const pybind11::handle& value,
                   KeyScalar* out);

// Converts a scalar or a tuple to values of up to `width` leading key columns.
// Returns false if keys.py must convert it.
bool to_key_scalars(const KeyEncoder& encoder, size_t width,
                    const pybind11::handle& value, std::vector<KeyScalar>* out);

}  // namespace nimble
