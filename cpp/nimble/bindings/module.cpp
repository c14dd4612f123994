#include <pybind11/pybind11.h>

PYBIND11_MODULE(_core, m, pybind11::mod_gil_not_used()) {
  m.doc() = "The compiled core of nimblepy.";
}
