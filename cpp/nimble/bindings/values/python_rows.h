// Converts rows of columns to Python objects, like pyarrow's as_py().
#pragma once

#include <pybind11/pybind11.h>

#include <optional>
#include <vector>

#include "nimble/bindings/values/python_values.h"
#include "nimble/column/column.h"

namespace nimble {

// Supports values that ValueMaker supports, dictionaries of them, and lists,
// dicts (structs) and lists of pairs (maps) of all these. Needs the GIL.
class RowMaker {
 public:
  // Returns nullopt if pyarrow must convert a part of the type.
  static std::optional<RowMaker> create(const Field& field);

  // Returns row `row` of a column of the field as a new reference, or null with
  // a Python error set.
  PyObject* make(const Column& column, uint64_t row) const;

 private:
  RowMaker() = default;
  PyObject* make_value(const Column& column, uint64_t row) const;
  PyObject* make_entry(const Column& column, uint64_t row) const;
  PyObject* make_list(const Column& column, uint64_t begin, uint64_t end) const;
  PyObject* make_struct(const Column& column, uint64_t row) const;
  PyObject* make_pair(const Column& column, uint64_t row) const;

  Layout layout_ = Layout::kFixed;
  bool is_pair_ = false;  // an entry of a map
  uint64_t list_size_ = 0;
  uint64_t width_ = 0;
  ValueMaker value_;
  std::vector<pybind11::object> names_;  // of a struct's fields
  std::vector<RowMaker> children_;
};

}  // namespace nimble
