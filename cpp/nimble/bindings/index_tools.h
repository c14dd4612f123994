// What is there beside files and their readers: Bloom filters by themselves,
// and other indexes for files that exist.
#pragma once

#include <pybind11/pybind11.h>

namespace nimble {

void register_bloom(pybind11::module_& m);
void register_index_rewriter(pybind11::module_& m);

}  // namespace nimble
