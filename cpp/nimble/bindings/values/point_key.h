// PointKey: encodes a key of one row that a caller gives, without Python code
// if possible. Thread-safe. Needs the GIL.
#pragma once

#include <pybind11/pybind11.h>

#include <optional>
#include <vector>

#include "nimble/bindings/values/python_keys.h"
#include "nimble/memory/scratch.h"

namespace nimble {

class PointKey {
 public:
  // Memory for one encoded key. Each caller has its own, because Python code
  // that runs in between may encode another key on the same thread.
  class Memory {
   public:
    static constexpr size_t kInlineBytes = 256;

   private:
    friend class PointKey;
    struct Encoded;
    uint8_t bytes_[kInlineBytes];
    std::optional<ThreadScratch<ByteBuffer, Encoded>> longer_;
  };

  // Keys are tuples with a value for each column of `encoder`. The value of
  // column i is item order[i]. If `order` is empty, no key can be encoded.
  // Raises if `order` does not have all columns. Borrows `encoder`.
  PointKey(const KeyEncoder* encoder, std::vector<size_t> order);

  size_t num_columns() const { return num_columns_; }
  // Returns the encoded key, in `memory`. Returns an empty span if
  // nimblepy/rows/keys.py must convert the key.
  ByteSpan encode(PyObject* key, Memory* memory) const;
  // Returns the stored value of a key's column, if the column has signed
  // integers, dates or times. Returns nullopt for other columns.
  // REQUIRES: encode() accepted the key.
  std::optional<int64_t> integer(PyObject* key, size_t column) const;
  // Returns the part of a key for a column of integers or text, if a row would
  // have an equal object of the same type. Otherwise returns null. The result
  // is borrowed.
  // REQUIRES: encode() accepted the key.
  PyObject* part(PyObject* key, size_t column) const {
    PyObject* const part = item(key, column);
    // A numpy integer has the same value, but is another type of object.
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
