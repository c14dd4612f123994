// Converts Python's descriptions of indexes to IndexSpec.
#pragma once

#include <pybind11/pybind11.h>

#include <vector>

#include "nimble/write/options.h"

namespace nimble {

// Each key is (path, descending, nulls first).
std::vector<KeyColumnSpec> key_columns(const pybind11::handle& keys);
// Each index is a dict.
std::vector<IndexSpec> index_specs(const pybind11::handle& indexes);

}  // namespace nimble
