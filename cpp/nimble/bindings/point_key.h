// PointKey: what a caller gives as the key of one row, in its encoded form,
// without Python's help where it can be.
#pragma once

#include <pybind11/pybind11.h>

#include <vector>

#include "nimble/bindings/python_keys.h"

namespace nimble {

class PointKey {
 public:
  static constexpr size_t kInlineBytes = 256;

  // Keys are tuples of all columns of `encoder`; the i-th column is item
  // order[i]. Without an order no key is known. Raises where `order` is not
  // one of all columns.
  PointKey(const KeyEncoder* encoder, std::vector<size_t> order);

  size_t num_columns() const { return num_columns_; }
  // The encoded form, in `bytes` or in memory of this thread that the next call
  // uses again; empty where nimblepy/keys.py has to look at the key.
  ByteSpan encode(PyObject* key, uint8_t (&bytes)[kInlineBytes]) const;
  // What a key that has been encoded has for a column; borrowed.
  PyObject* part(PyObject* key, size_t column) const {
    if (num_columns_ == 1) return key;
    return PyTuple_GET_ITEM(key, static_cast<Py_ssize_t>(order_[column]));
  }

 private:
  ByteSpan encode_tuple(PyObject* key) const;
  bool values_of(PyObject* key, std::vector<KeyScalar>* values) const;

  const KeyEncoder* encoder_;  // null: no index
  size_t num_columns_;
  std::vector<size_t> order_;
};

}  // namespace nimble
