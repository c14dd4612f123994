// PointKey: what a caller gives as the key of one row, in its encoded form,
// without Python's help where it can be.
#pragma once

#include <pybind11/pybind11.h>

#include <optional>
#include <vector>

#include "nimble/bindings/values/python_keys.h"
#include "nimble/memory/scratch.h"

namespace nimble {

class PointKey {
 public:
  // Memory for one encoded key. A call of Python in between may encode another
  // key on the same thread, so each caller has its own.
  class Memory {
   public:
    static constexpr size_t kInlineBytes = 256;

   private:
    friend class PointKey;
    struct Encoded;
    uint8_t bytes_[kInlineBytes];
    std::optional<ThreadScratch<ByteBuffer, Encoded>> longer_;
  };

  // Keys are tuples of all columns of `encoder`; the i-th column is item
  // order[i]. Without an order no key is known. Raises where `order` is not
  // one of all columns.
  PointKey(const KeyEncoder* encoder, std::vector<size_t> order);

  size_t num_columns() const { return num_columns_; }
  // The encoded form, in `memory`; empty where nimblepy/rows/keys.py has to
  // look at the key.
  ByteSpan encode(PyObject* key, Memory* memory) const;
  // What a key that has been encoded has for a column of signed integers, dates
  // or times, as it is stored; nothing for other columns.
  std::optional<int64_t> integer(PyObject* key, size_t column) const;
  // What a key that has been encoded has for a column of integers or text, if
  // it is the object that the row would have; else null. Borrowed.
  PyObject* part(PyObject* key, size_t column) const {
    PyObject* const part = item(key, column);
    // A numpy integer means the same value and is another object.
    const bool plain = PyLong_CheckExact(part) || PyUnicode_CheckExact(part);
    return plain ? part : nullptr;
  }

 private:
  PyObject* item(PyObject* key, size_t column) const {
    return num_columns_ == 1
               ? key
               : PyTuple_GET_ITEM(key, static_cast<Py_ssize_t>(order_[column]));
  }
  ByteSpan encode_tuple(PyObject* key, Memory* memory) const;
  bool values_of(PyObject* key, std::vector<KeyScalar>* values) const;

  const KeyEncoder* encoder_;  // null: no index
  size_t num_columns_;
  std::vector<size_t> order_;
};

}  // namespace nimble
