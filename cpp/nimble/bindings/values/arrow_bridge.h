// Passes Arrow data to and from Python, with the PyCapsule protocol. Does not
// copy data: capsules contain the C structs, which own their memory. Functions
// with Python objects need the GIL.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <vector>

#include "nimble/column/column.h"
#include "nimble/types/array_view.h"

namespace nimble {

// An Arrow array imported from Python, with its schema.
class ImportedArray {
 public:
  // `object` has __arrow_c_array__ (a RecordBatch, an Array, ...).
  static std::unique_ptr<ImportedArray> from_python(
      const pybind11::handle& object);
  ~ImportedArray();
  ImportedArray() = default;
  ImportedArray(const ImportedArray&) = delete;

  const Field& field() const { return field_; }
  const ArrayView& view() const { return view_; }

 private:
  ArrowArray array_{};
  Field field_;
  ArrayView view_;
};

pybind11::object schema_capsule(const Field& field);
// Moves a column to capsules. Returns (schema, array).
pybind11::tuple array_capsules(Column&& column);
// Moves an exported array of type `field` to capsules. Returns (schema, array).
pybind11::tuple array_capsules(const Field& field, ArrowArray* array);

}  // namespace nimble
