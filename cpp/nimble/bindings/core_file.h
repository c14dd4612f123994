// CoreFile: an open file for Python. Python's File class (reader.py) resolves
// names, keys and filters. This class does the work on rows.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <optional>
#include <string>
#include <vector>

#include "nimble/bindings/values/arrow_bridge.h"
#include "nimble/key/key_bounds.h"
#include "nimble/reader/file_reader.h"
#include "nimble/stripe/row_reader.h"
#include "nimble/threads/threads.h"

namespace nimble {

// Converts one row of Arrow columns to scalars. The columns are the first key
// columns. Borrows from `row`.
std::vector<KeyScalar> scalars_of(const ArrayView& row);

// Returns the paths, directions and null placement of key columns, in the form
// that Python uses.
pybind11::list sort_keys_of(const std::vector<KeyColumnSpec>& columns);

pybind11::array_t<uint64_t> ranges_to_numpy(const std::vector<RowRange>& r);
std::vector<RowRange> ranges_from_numpy(
    const pybind11::array_t<uint64_t, pybind11::array::c_style>& r);
// Converts and merges ranges. Raises if a range ends after the end of the file.
std::vector<RowRange> rows_of_file(
    const pybind11::array_t<uint64_t, pybind11::array::c_style>& ranges,
    const OpenFile& file);

// Converts a number of threads from Python. 0 means one per processor.
inline uint32_t threads_or_default(uint32_t threads) {
  return threads == 0 ? default_threads() : threads;
}

void register_errors(pybind11::module_& m);
void register_file(pybind11::module_& m);
void register_projection(pybind11::module_& m);
void register_filter(pybind11::module_& m);
void register_scan(pybind11::module_& m);
void register_lookup(pybind11::module_& m);
void register_index(pybind11::module_& m);
void register_locate(pybind11::module_& m);
void register_inspect(pybind11::module_& m);
void register_index_rewriter(pybind11::module_& m);
void register_raw(pybind11::module_& m);
void register_serve(pybind11::module_& m);
void register_writer(pybind11::module_& m);
void register_point_reader(pybind11::module_& m);
void register_quick_get(pybind11::module_& m);
void register_range_reader(pybind11::module_& m);
void register_asof(pybind11::module_& m);
void register_parquet(pybind11::module_& m);

using FilePtr = std::shared_ptr<FileReader>;

}  // namespace nimble
