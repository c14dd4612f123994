// What Python says of the indexes to build.
#pragma once

#include <pybind11/pybind11.h>

#include <vector>

#include "nimble/write/options.h"

namespace nimble {

// Of (path, descending, nulls first) each.
std::vector<KeyColumnSpec> key_columns(const pybind11::handle& keys);
// Of dicts, one an index.
std::vector<IndexSpec> index_specs(const pybind11::handle& indexes);

}  // namespace nimble
