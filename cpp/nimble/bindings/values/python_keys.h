// Python values as key values: those that mean one value of their column and
// nothing else, numpy's integers and doubles among them. Everything else
// (numbers of other kinds, values that the column cannot hold, Arrow scalars)
// is left to nimblepy/rows/keys.py, so that there is one place that coerces.
#pragma once

#include <pybind11/pybind11.h>

#include "nimble/key/key_encoder.h"
#include "nimble/key/key_scalar.h"

namespace nimble {

// False where keys.py has to look at it. Text and bytes are borrowed from
// `value`. None is null.
bool to_key_scalar(const KeyColumn& column, const pybind11::handle& value,
                   KeyScalar* out);

// The values of a scalar or tuple as those of the first of `width` key
// columns; false where keys.py has to look at it.
bool to_key_scalars(const KeyEncoder& encoder, size_t width,
                    const pybind11::handle& value, std::vector<KeyScalar>* out);

}  // namespace nimble
