// Converts Python values to key values, if the column's type can represent them
// exactly. This includes numpy's integers and doubles. nimblepy/rows/keys.py
// converts all other values, so that coercion happens in one place. These are
// other kinds of numbers, values outside the column's range, and Arrow scalars.
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
