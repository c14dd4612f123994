// CoreFile: an open file as Python sees it. Python's File class (reader.py)
// resolves names, keys and filters; this class does the work on rows.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <optional>
#include <string>
#include <vector>

#include "nimble/bindings/arrow_bridge.h"
#include "nimble/key/key_bounds.h"
#include "nimble/lookup/find_keys.h"
#include "nimble/reader/file_reader.h"
#include "nimble/stripe/row_reader.h"

namespace nimble {

// The file whose rows are read: Python makes a RowReader of a FileReader.
inline std::shared_ptr<const FileReader> file_of(const RowReader& rows) {
  return std::static_pointer_cast<const FileReader>(rows.file_owner());
}

// Values of the first key columns, one row of Arrow columns, as scalars that
// borrow from it.
std::vector<KeyScalar> scalars_of(const ArrayView& row);

// A key of some columns to look up: the probe batch and its encoded keys.
class ProbeKeys {
 public:
  // `batch` has the first columns of the cluster key, with their types. With
  // `null_equals` nulls are looked up like values, otherwise they match
  // nothing.
  ProbeKeys(const FileReader& file, const pybind11::object& batch,
            bool null_equals);

  // Asks where each key is or would be: an absent one has the empty range of
  // its place. Bloom filter and uniqueness, which know no places, are left out.
  void find_places() { whole_ = false; }

  size_t size() const { return keys_.size(); }
  // The row range of each probe. Call without the GIL.
  // `wanted`: as for KeyCursor.
  Result<LookupAnswer> find(const RowReader* wanted = nullptr) const;
  // Of the columns of `reader` those that every found row shares with its
  // probe: the probes hold their values in the file's own type and form.
  std::vector<uint8_t> known_columns(const RowReader& reader) const;
  // Appends the values that the probes have of a known column.
  Status append_known(const RowReader& reader, size_t column,
                      const std::vector<uint64_t>& probes, Column* out) const;

 private:
  // The column of the batch that a column of `reader` is; none: size().
  size_t key_column(const RowReader& reader, size_t column) const;

  const FileReader& file_;
  std::unique_ptr<ImportedArray> batch_;
  KeyBuffer keys_;
  std::vector<uint8_t> has_null_;  // empty: none has
  bool whole_ = false;
};

// Secondary index `index` of the footer, opened without the GIL; raises where
// there is none.
const IndexLookup* secondary_index(const FileReader& file, int64_t index);

// Paths, directions and null placement of key columns, as Python sees them.
pybind11::list sort_keys_of(const std::vector<KeyColumnSpec>& columns);

pybind11::array_t<uint64_t> ranges_to_numpy(const std::vector<RowRange>& r);
std::vector<RowRange> ranges_from_numpy(
    const pybind11::array_t<uint64_t, pybind11::array::c_style>& r);
// The same, merged; raises where one ends past the file.
std::vector<RowRange> rows_of_file(
    const pybind11::array_t<uint64_t, pybind11::array::c_style>& ranges,
    const OpenFile& file);

void register_errors(pybind11::module_& m);
void register_file(pybind11::module_& m);
void register_projection(pybind11::module_& m);
void register_filter(pybind11::module_& m);
void register_lookup(pybind11::module_& m);
void register_index(pybind11::module_& m);
void register_index_functions(pybind11::module_& m);
void register_key_batch(pybind11::module_& m);
void register_inspect(pybind11::module_& m);
void register_index_rewriter(pybind11::module_& m);
void register_writer(pybind11::module_& m);
void register_point_reader(pybind11::module_& m);
void register_quick_get(pybind11::module_& m);
void register_range_reader(pybind11::module_& m);

using FilePtr = std::shared_ptr<FileReader>;

}  // namespace nimble
