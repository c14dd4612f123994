#include "nimble/bindings/core_file.h"
#include "nimble/bindings/register_nearest.h"
#include "nimble/bindings/values/gil.h"
#include "nimble/threads/blocking.h"

// Not mod_gil_not_used(): the tests have not run on a free-threaded Python yet.
PYBIND11_MODULE(_core, m) {
  m.doc() = "The compiled core of nimblepy; private, see nimblepy's own names.";
  nimble::holds_interpreter = [] { return PyGILState_Check() == 1; };
  pybind11::module_::import("atexit").attr("register")(
      pybind11::cpp_function(&nimble::close_interpreter));
  nimble::register_errors(m);
  nimble::register_writer(m);
  nimble::register_file(m);
  nimble::register_projection(m);
  nimble::register_filter(m);
  nimble::register_scan(m);
  nimble::register_lookup(m);
  nimble::register_index(m);
  nimble::register_locate(m);
  nimble::register_point_reader(m);
  nimble::register_quick_get(m);
  nimble::register_range_reader(m);
  nimble::register_asof(m);
  nimble::register_parquet(m);
  nimble::register_nearest(m);
  nimble::register_inspect(m);
  nimble::register_index_rewriter(m);
  nimble::register_raw(m);
  nimble::register_serve(m);
}
