#include "nimble/bindings/values/python_rows.h"

#include <algorithm>
#include <cstring>

namespace py = pybind11;

namespace nimble {
namespace {

bool has_repeats(const std::vector<Field>& fields) {
  for (size_t i = 0; i < fields.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (fields[i].name == fields[j].name) return true;
    }
  }
  return false;
}

}  // namespace

std::optional<RowMaker> RowMaker::create(const Field& field) {
  if (is_extension(field)) return std::nullopt;
  RowMaker out;
  out.layout_ = field.layout;
  out.width_ = field.width;
  out.list_size_ = static_cast<uint64_t>(std::max(field.list_size, 0));
  switch (field.layout) {
    case Layout::kList:
    case Layout::kFixedList:
      break;
    case Layout::kStruct:
      if (has_repeats(field.children)) return std::nullopt;
      break;
    case Layout::kDictionary: {
      auto values = RowMaker::create(field.dictionary[0]);
      if (!values) return std::nullopt;
      out.children_.push_back(std::move(*values));
      return out;
    }
    case Layout::kFixed:
    case Layout::kBool:
    case Layout::kBytes:
      if (!ValueMaker::knows(field)) return std::nullopt;
      out.value_ = ValueMaker(field);
      return out;
    default:
      return std::nullopt;
  }
  for (const Field& child : field.children) {
    auto made = RowMaker::create(child);
    if (!made) return std::nullopt;
    if (field.is_map) made->is_pair_ = true;
    out.children_.push_back(std::move(*made));
    out.names_.push_back(py::str(child.name));
    PyUnicode_InternInPlace(&out.names_.back().ptr());
  }
  return out;
}

PyObject* RowMaker::make(const Column& column, uint64_t row) const {
  if (!column.is_valid(row)) return Py_NewRef(Py_None);
  switch (layout_) {
    case Layout::kList:
      return make_list(column, static_cast<uint64_t>(column.ends[row]),
                       static_cast<uint64_t>(column.ends[row + 1]));
    case Layout::kFixedList:
      return make_list(column, row * list_size_, (row + 1) * list_size_);
    case Layout::kStruct:
      return is_pair_ ? make_pair(column, row) : make_struct(column, row);
    case Layout::kDictionary:
      return make_entry(column, row);
    default:
      return make_value(column, row);
  }
}

PyObject* RowMaker::make_value(const Column& column, uint64_t row) const {
  if (layout_ == Layout::kBytes) {
    static const uint8_t nothing = 0;
    const uint64_t begin = column.bytes.begin_of(row);
    const uint64_t size = column.bytes.end_of(row) - begin;
    return value_.make(size > 0 ? column.bytes.data.data() + begin : &nothing,
                       size);
  }
  if (layout_ == Layout::kBool) {
    const uint8_t bit = get_bit(column.value_data(), row) ? 1 : 0;
    return value_.make(&bit, 1);
  }
  return value_.make(column.value_data() + row * width_, width_);
}

// Need not check the code: the column's codes were checked when it was read.
PyObject* RowMaker::make_entry(const Column& column, uint64_t row) const {
  uint64_t code = 0;
  std::memcpy(&code, column.value_data() + row * width_, width_);
  return children_[0].make(column.dictionary->values, code);
}

PyObject* RowMaker::make_list(const Column& column, uint64_t begin,
                              uint64_t end) const {
  PyObject* const out = PyList_New(static_cast<Py_ssize_t>(end - begin));
  if (out == nullptr) return nullptr;
  for (uint64_t i = begin; i < end; ++i) {
    PyObject* const item = children_[0].make(column.children[0], i);
    if (item == nullptr) {
      Py_DECREF(out);
      return nullptr;
    }
    PyList_SET_ITEM(out, static_cast<Py_ssize_t>(i - begin), item);
  }
  return out;
}

PyObject* RowMaker::make_struct(const Column& column, uint64_t row) const {
  PyObject* const out = PyDict_New();
  for (size_t i = 0; out != nullptr && i < children_.size(); ++i) {
    PyObject* const item = children_[i].make(column.children[i], row);
    if (item == nullptr || PyDict_SetItem(out, names_[i].ptr(), item) != 0) {
      Py_XDECREF(item);
      Py_DECREF(out);
      return nullptr;
    }
    Py_DECREF(item);
  }
  return out;
}

PyObject* RowMaker::make_pair(const Column& column, uint64_t row) const {
  PyObject* const out = PyTuple_New(static_cast<Py_ssize_t>(children_.size()));
  for (size_t i = 0; out != nullptr && i < children_.size(); ++i) {
    PyObject* const item = children_[i].make(column.children[i], row);
    if (item == nullptr) {
      Py_DECREF(out);
      return nullptr;
    }
    PyTuple_SET_ITEM(out, static_cast<Py_ssize_t>(i), item);
  }
  return out;
}

}  // namespace nimble
