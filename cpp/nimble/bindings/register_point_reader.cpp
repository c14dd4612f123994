// _core.PointReader: one row as a dict, the quickest way from a key to Python
// values. Works on mapped files; others read the row through a Projection.
#include <pybind11/stl.h>

#include <new>
#include <optional>

#include "nimble/bindings/errors.h"
#include "nimble/bindings/gil.h"
#include "nimble/bindings/index_handle.h"
#include "nimble/bindings/point_key.h"
#include "nimble/bindings/point_value.h"
#include "nimble/bindings/python_rows.h"

namespace py = pybind11;

namespace nimble {
namespace {

class PointReader : public std::enable_shared_from_this<PointReader> {
 public:
  // `fallback(row, numbers of columns)` gives a dict of those that neither
  // ValueMaker nor RowMaker knows; of all where the file is not mapped. Keys
  // are those of `index`; `order` as in PointKey.
  PointReader(std::shared_ptr<RowReader> rows, py::object fallback,
              std::shared_ptr<const IndexHandle> index,
              std::vector<size_t> order)
      : rows_(std::move(rows)),
        fallback_(std::move(fallback)),
        index_(std::move(index)),
        key_(&(*index_)->encoder(), std::move(order)) {
    index_->check_same_file(*rows_);
    for (size_t i = 0; i < rows_->schema().children.size(); ++i) {
      add_column(i);
    }
    if (!nested_columns_.empty()) {
      nested_ = unwrap(RowReader::create(rows_->file_owner(), nested_columns_));
    }
  }

  // get(key) as a Python function without the cost of a bound method: the row
  // as a dict, None where no row has the key, NotImplemented where the key
  // needs Python's help.
  py::object getter() const {
    using Owner = std::shared_ptr<const PointReader>;
    static PyMethodDef definition = {"get", &PointReader::call_get, METH_O,
                                     nullptr};
    const py::capsule owner(new Owner(shared_from_this()),
                            [](void* p) { delete static_cast<Owner*>(p); });
    return py::reinterpret_steal<py::object>(
        PyCFunction_New(&definition, owner.ptr()));
  }

  // A row of the file as a dict.
  py::object read(uint64_t row) const {
    const OpenFile& f = rows_->file();
    if (row >= f.num_rows()) {
      raise(Status::invalid_argument("row " + std::to_string(row) +
                                     " of a file of " +
                                     std::to_string(f.num_rows()) + " rows"));
    }
    return read_columns(row, nullptr);
  }

 private:
  struct Getter {
    py::object name;
    bool direct = false;
    PointColumn column;
    // Not direct, but with a maker: number of the column in `nested_`.
    std::optional<RowMaker> nested;
    size_t nested_column = 0;
    // The part of the key that a row which was found by it has here.
    std::optional<size_t> key_part;
  };
  // The row's columns that are not direct.
  struct Slow {
    const py::object& others;
    const std::optional<Column>& nested;
  };
  // Columns whose bytes are on their way at once.
  static constexpr size_t kAhead = 16;

  void add_column(size_t i) {
    const OpenFile& f = rows_->file();
    const Field& field = rows_->schema().children[i];
    Getter g;
    g.name = py::str(field.name);
    PyUnicode_InternInPlace(&g.name.ptr());
    const SchemaNode& n = f.plan().node(rows_->node(i));
    g.direct = ValueMaker::knows(field) && !rows_->is_nested(i) &&
               n.values != kNoStream && f.file().mapped() != nullptr;
    g.column = {{}, field.layout, n.validity, n.values};
    if (g.direct) g.column.maker = ValueMaker(field);
    if (!g.direct) add_nested(field, i, &g);
    // Only where equal keys are equal objects.
    const bool is_same =
        field.logical == Logical::kInt || field.logical == Logical::kText;
    for (size_t k = 0; k < key_.num_columns() && g.direct && is_same; ++k) {
      const std::vector<int>& path = index_->columns()[k].path;
      if (path.size() != 1) continue;
      const auto top = static_cast<size_t>(path[0]);
      if (f.plan().node(0).children[top] == rows_->node(i)) g.key_part = k;
    }
    blank_[g.name] = py::none();
    getters_.push_back(std::move(g));
  }

  void add_nested(const Field& field, size_t i, Getter* g) {
    if (!rows_->is_nested(i) && rows_->file().file().mapped() != nullptr)
      g->nested = RowMaker::create(field);
    if (!g->nested) return others_.append(i);
    g->nested_column = nested_columns_.size();
    nested_columns_.push_back(rows_->column(i));
  }

  static PyObject* call_get(PyObject* owner, PyObject* key) {
    const auto* self = static_cast<std::shared_ptr<const PointReader>*>(
        PyCapsule_GetPointer(owner, nullptr));
    try {
      return (*self)->get(key).release().ptr();
    } catch (py::error_already_set& e) {
      e.restore();
    } catch (const std::bad_alloc&) {
      PyErr_NoMemory();
    } catch (const std::exception& e) {
      PyErr_SetString(PyExc_RuntimeError, e.what());
    }
    return nullptr;
  }

  py::object get(PyObject* key) const {
    PointKey::Memory memory;
    const ByteSpan encoded = key_.encode(key, &memory);
    if (encoded.empty()) {
      return py::reinterpret_borrow<py::object>(Py_NotImplemented);
    }
    const OpenFile& f = rows_->file();
    Result<std::optional<uint64_t>> found = std::optional<uint64_t>();
    if (f.file().mapped() != nullptr) {
      found = (*index_)->find_first(encoded, rows_.get());
    } else {
      const WithoutGil nogil;
      found = (*index_)->find_first(encoded, rows_.get());
    }
    const std::optional<uint64_t> row = unwrap(std::move(found));
    if (!row) return py::none();
    return read_columns(*row, key);
  }

  // `key` is the one that the row was found by, or null.
  py::object read_columns(uint64_t row, PyObject* key) const {
    const OpenFile& f = rows_->file();
    // One round of reads for all of them.
    py::object others;
    if (!others_.empty()) others = fallback_(row, others_);
    if (f.file().mapped() == nullptr) return others;
    std::optional<Column> nested;
    if (nested_ != nullptr) {
      nested.emplace(nested_->make_output());
      check(nested_->take({&row, 1}, 1, &*nested));
    }
    const GroupHandle group = unwrap(f.groups().get(f.group_of(row)));
    const StripeView& stripe = group->view().stripe_of(row);
    const RowPlace place{f, *group, stripe, row - stripe.first_row};
    // Copied rather than built: its table has the right size and the keys.
    py::object out =
        py::reinterpret_steal<py::object>(PyDict_Copy(blank_.ptr()));
    if (!out) throw py::error_already_set();
    for (size_t i = 0; i < getters_.size(); i += kAhead) {
      fill(place, i, std::min(getters_.size(), i + kAhead), key,
           {others, nested}, out.ptr());
    }
    return out;
  }

  // Columns [begin, end): first all decoders and bytes are asked for, then
  // used.
  void fill(const RowPlace& place, size_t begin, size_t end, PyObject* key,
            const Slow& slow, PyObject* out) const {
    OneValue values[kAhead];
    for (size_t i = begin; i < end; ++i) {
      const Getter& g = getters_[i];
      if (!g.direct || known_part(g, key) != nullptr) continue;
      OneValue& value = values[i - begin];
      if (Status s = place.stream(g.column.values, &value); !s)
        fail(std::move(s), i);
      value.prefetch_decoder();
    }
    for (size_t i = 0; i < end - begin; ++i) {
      if (values[i].decoder != nullptr) values[i].prefetch();
    }
    for (size_t i = begin; i < end; ++i) {
      const Getter& g = getters_[i];
      PyObject* made = nullptr;
      if (g.nested) {
        made = g.nested->make(slow.nested->children[g.nested_column], 0);
      } else if (!g.direct) {
        made = py::object(slow.others[g.name]).release().ptr();
      } else if (PyObject* const part = known_part(g, key)) {
        made = Py_NewRef(part);
      } else {
        Status s = make_value(place, g.column, values[i - begin], &made);
        if (!s) fail(std::move(s), i);
      }
      if (made == nullptr) throw py::error_already_set();
      const int failed = PyDict_SetItem(out, g.name.ptr(), made);
      Py_DECREF(made);
      if (failed != 0) throw py::error_already_set();
    }
  }

  // What the key that the row was found by, if any, has for a column; borrowed.
  PyObject* known_part(const Getter& getter, PyObject* key) const {
    const bool known = getter.key_part && key != nullptr;
    return known ? key_.part(key, *getter.key_part) : nullptr;
  }

  [[noreturn]] void fail(Status status, size_t column) const {
    raise(std::move(status).with_context(
        rows_->file().file().name() + ": column '" +
        rows_->schema().children[column].name + "'"));
  }

  std::shared_ptr<RowReader> rows_;
  py::object fallback_;
  std::shared_ptr<const IndexHandle> index_;
  PointKey key_;
  std::vector<Getter> getters_;
  py::dict blank_;   // every name, no value
  py::list others_;  // numbers of columns that go through `fallback_`
  std::vector<OutputColumn> nested_columns_;
  std::shared_ptr<const RowReader> nested_;
};

}  // namespace

void register_point_reader(py::module_& m) {
  py::class_<PointReader, std::shared_ptr<PointReader>>(m, "PointReader")
      .def(py::init([](std::shared_ptr<RowReader> rows, py::object fallback,
                       int64_t index, std::vector<size_t> order) {
             auto handle =
                 IndexHandle::open(file_of(*rows), index_number(index));
             return std::make_shared<PointReader>(
                 std::move(rows), std::move(fallback), std::move(handle),
                 std::move(order));
           }),
           py::arg("projection"), py::arg("fallback"), py::arg("index"),
           py::arg("order"))
      .def("getter", &PointReader::getter)
      .def("read", &PointReader::read, py::arg("row"));
}

}  // namespace nimble
