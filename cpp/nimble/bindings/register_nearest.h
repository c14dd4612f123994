// Registers _core.nearest() and _core.VectorIndex.
#pragma once

#include <pybind11/pybind11.h>

namespace nimble {

void register_nearest(pybind11::module_& m);

}  // namespace nimble
