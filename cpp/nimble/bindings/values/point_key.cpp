#include "nimble/bindings/values/point_key.h"

#include <algorithm>

#include "nimble/bindings/values/errors.h"

namespace py = pybind11;

namespace nimble {

PointKey::PointKey(const KeyEncoder* encoder, std::vector<size_t> order)
    : encoder_(encoder),
      num_columns_(encoder != nullptr ? encoder->columns().size() : 0),
      order_(std::move(order)) {
  std::vector<size_t> sorted = order_;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] == i && sorted.size() == num_columns_) continue;
    raise(Status::invalid_argument(
        "expected each key column once, in any order"));
  }
}

ByteSpan PointKey::encode(PyObject* key, Memory* memory) const {
  if (order_.empty()) return {};
  if (num_columns_ != 1) return encode_tuple(key, memory);
  uint8_t* const bytes = memory->bytes_;
  const KeyEncoder& encoder = *encoder_;
  const Logical logical = encoder.columns()[0].logical;
  if (logical == Logical::kInt && PyLong_CheckExact(key)) {
    int overflow = 0;
    const long long v = PyLong_AsLongLongAndOverflow(key, &overflow);
    // The number does not fit in an int64. Python code decides whether the key
    // is an error or just absent.
    if (overflow != 0) return {};
    return {bytes, encoder.encode_int_key(v, bytes)};
  }
  if (logical == Logical::kText && PyUnicode_CheckExact(key)) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(key, &size);
    if (text == nullptr) {  // a lone surrogate; Python raises the error
      PyErr_Clear();
      return {};
    }
    const auto n = static_cast<size_t>(size);
    if (KeyEncoder::max_text_key(n) <= Memory::kInlineBytes) {
      return {bytes, encoder.encode_text_key({text, n}, bytes)};
    }
  }
  return PyTuple_Check(key) ? ByteSpan{} : encode_tuple(key, memory);
}

std::optional<int64_t> PointKey::integer(PyObject* key, size_t column) const {
  KeyScalar value;
  const bool known =
      to_key_scalar(encoder_->columns()[column], item(key, column), &value);
  if (!known || value.kind != KeyScalar::Kind::kInt) return std::nullopt;
  return value.i;
}

// Like encode(), for keys of any type and number of columns.
ByteSpan PointKey::encode_tuple(PyObject* key, Memory* memory) const {
  struct TupleValues;
  ThreadScratch<std::vector<KeyScalar>, TupleValues> values;
  if (!values_of(key, &*values)) return {};
  for (const KeyScalar& v : *values) {
    if (v.kind == KeyScalar::Kind::kNull) return {};
  }
  ByteBuffer& encoded = *memory->longer_.emplace();
  check(encoder_->encode_tuple(*values, &encoded));
  return encoded.span();
}

// Converts the values of a key, in the order of the key's columns.
bool PointKey::values_of(PyObject* key, std::vector<KeyScalar>* values) const {
  values->resize(num_columns_);
  const auto& columns = encoder_->columns();
  if (!PyTuple_CheckExact(key)) {
    return num_columns_ == 1 &&
           to_key_scalar(columns[0], key, &values->front());
  }
  if (static_cast<size_t>(PyTuple_GET_SIZE(key)) != num_columns_) return false;
  for (size_t i = 0; i < num_columns_; ++i) {
    if (!to_key_scalar(columns[i], item(key, i), &(*values)[i])) return false;
  }
  return true;
}

}  // namespace nimble
