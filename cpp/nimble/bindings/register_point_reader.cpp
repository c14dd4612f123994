// _core.PointReader: reads one row as a dict. This is the fastest way from a
// key to Python values. In mapped files, flat columns and lists of flat items
// are decoded value by value. Other columns are read as a batch of one row, as
// are all columns of files that are not mapped.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "nimble/asof/asof_finder.h"
#include "nimble/bindings/index_handle.h"
#include "nimble/bindings/key_bounds.h"
#include "nimble/bindings/values/errors.h"
#include "nimble/bindings/values/gil.h"
#include "nimble/bindings/values/key_batch.h"
#include "nimble/bindings/values/point_key.h"
#include "nimble/bindings/values/python_rows.h"
#include "nimble/locate/files_by_key.h"
#include "nimble/locate/locate.h"
#include "nimble/stripe/value_reader.h"

namespace py = pybind11;

namespace nimble {
namespace {

// Creates a Python function get(key) for a Reader. It avoids the cost of a
// bound method. It returns the row as a dict, None if no row has the key, or
// NotImplemented if Python code must convert the key.
template <class Reader>
class Getters {
 public:
  static py::object make(const Reader& reader) {
    static PyMethodDef definition = {"get", &call, METH_O, nullptr};
    const py::capsule owner(new Owner(reader.shared_from_this()),
                            [](void* p) { delete static_cast<Owner*>(p); });
    return py::reinterpret_steal<py::object>(
        PyCFunction_New(&definition, owner.ptr()));
  }

 private:
  using Owner = std::shared_ptr<const Reader>;

  static PyObject* call(PyObject* owner, PyObject* key) {
    const auto* self =
        static_cast<const Owner*>(PyCapsule_GetPointer(owner, nullptr));
    return null_on_error([&] { return (*self)->get(key).release().ptr(); });
  }
};

// The rule by which an as-of search chooses a row: see AsofFinder.
struct AsofRule {
  bool backward = true;
  bool exclusive = false;
};

// Like Reader, but finds the nearest row at or before a key, or at or after it.
template <class Reader>
class AsofReader : public std::enable_shared_from_this<AsofReader<Reader>> {
 public:
  AsofReader(std::shared_ptr<const Reader> reader, AsofRule rule)
      : reader_(std::move(reader)), rule_(rule) {}

  py::object get(PyObject* key) const { return reader_->asof(key, rule_); }

 private:
  const std::shared_ptr<const Reader> reader_;
  const AsofRule rule_;
};

// Like Reader::getter(), for as-of searches.
template <class Reader>
py::object asof_getter(const Reader& reader, bool backward, bool exclusive) {
  const auto made = std::make_shared<AsofReader<Reader>>(
      reader.shared_from_this(), AsofRule{backward, exclusive});
  return Getters<AsofReader<Reader>>::make(*made);
}

class PointReader final : public KeyedFile,
                          public std::enable_shared_from_this<PointReader> {
 public:
  // Keys are keys of `index`. `order`: see PointKey. Rows in `deleted` are not
  // found; `deleted` may be null. `blank` has all names in the order of a row,
  // with values for names that are not columns of `rows`.
  PointReader(std::shared_ptr<RowReader> rows,
              std::shared_ptr<const IndexHandle> index,
              std::vector<size_t> order,
              std::shared_ptr<const RowBitmap> deleted, const py::dict& blank)
      : rows_(std::move(rows)),
        index_(std::move(index)),
        deleted_(std::move(deleted)),
        key_(&(*index_)->encoder(), std::move(order)) {
    index_->check_same_file(*rows_);
    blank_ = blank.attr("copy")();
    std::vector<OutputColumn> batch;  // columns that are not flat
    for (size_t i = 0; i < rows_->schema().children.size(); ++i) {
      add_column(i, &batch);
    }
    if (!batch.empty()) {
      batch_ = unwrap(RowReader::create(rows_->file_owner(), batch));
    }
    import_array_ = py::module_::import("pyarrow").attr("Array").attr(
        "_import_from_c_capsule");
  }

  py::object getter() const { return Getters<PointReader>::make(*this); }

  // Returns a row of the file as a dict.
  py::object read(uint64_t row) const {
    const OpenFile& f = rows_->file();
    if (row >= f.num_rows()) {
      raise(Status::invalid_argument("row " + std::to_string(row) +
                                     " is outside a file of " +
                                     std::to_string(f.num_rows()) + " rows"));
    }
    return read_columns(row, nullptr);
  }

 private:
  // How to read one column.
  struct Getter {
    py::object name;
    // If the column is read value by value: its position, and the converter for
    // its values or items. For a dictionary, `value` converts its entries, and
    // `node` is the node that has the dictionary.
    std::optional<FlatColumn> flat;
    std::optional<ListColumn> list;
    ValueMaker value;
    uint32_t node = 0;
    // Otherwise: the column's index in `batch_`. If `row` is not set, pyarrow
    // converts the value.
    size_t batch_column = 0;
    std::optional<RowMaker> row;
    // If the row was found by key and a part of the key equals this column: the
    // index of the part.
    std::optional<size_t> key_part;

    bool is_batched() const { return !flat && !list; }
  };
  // Number of columns that are prefetched at once.
  static constexpr size_t kAhead = 16;

  void add_column(size_t i, std::vector<OutputColumn>* batch) {
    const OpenFile& f = rows_->file();
    const Field& field = rows_->schema().children[i];
    Getter g;
    g.name = py::str(field.name);
    PyUnicode_InternInPlace(&g.name.ptr());
    g.node = rows_->node(i);
    const bool is_dictionary = field.layout == Layout::kDictionary;
    if (is_dictionary && !is_extension(field)) {
      g.row = RowMaker::create(field.dictionary[0]);
    }
    const bool is_known =
        is_dictionary ? g.row.has_value() : ValueMaker::knows(field);
    const bool is_single = f.file().mapped() != nullptr && !rows_->is_nested(i);
    if (is_single && is_known) g.flat = FlatColumn::of(f.plan(), g.node);
    if (is_single && is_list_of_known(field)) {
      g.list = ListColumn::of(f.plan(), g.node);
    }
    if (g.list) {
      g.value = ValueMaker(field.children[0]);
    } else if (!g.flat) {
      g.row = RowMaker::create(field);
      g.batch_column = batch->size();
      batch->push_back(rows_->column(i));
    } else if (!is_dictionary) {
      g.value = ValueMaker(field);
    }
    // A part of the key is used only for types whose equal keys are equal
    // objects.
    const bool is_same =
        field.logical == Logical::kInt || field.logical == Logical::kText;
    for (size_t k = 0; k < key_.num_columns() && g.flat && is_same; ++k) {
      const std::vector<int>& path = index_->columns()[k].path;
      if (path.size() != 1) continue;
      const auto top = static_cast<size_t>(path[0]);
      if (f.plan().node(0).children[top] == g.node) g.key_part = k;
    }
    if (!blank_.contains(g.name)) blank_[g.name] = py::none();
    getters_.push_back(std::move(g));
  }

  static bool is_list_of_known(const Field& field) {
    return (field.layout == Layout::kList ||
            field.layout == Layout::kFixedList) &&
           !field.is_map && !field.is_view && !is_extension(field) &&
           field.children[0].layout != Layout::kDictionary &&
           ValueMaker::knows(field.children[0]);
  }

  py::object get(PyObject* key) const {
    PointKey::Memory memory;
    const ByteSpan encoded = key_.encode(key, &memory);
    if (encoded.empty()) {
      return py::reinterpret_borrow<py::object>(Py_NotImplemented);
    }
    return get_encoded(encoded, key);
  }

 public:
  const KeyEncoder& encoder() const override { return (*index_)->encoder(); }
  // Finds the row for a key, as of the value of its last column.
  py::object asof(PyObject* key, AsofRule rule) const {
    PointKey::Memory memory;
    const ByteSpan encoded = key_.encode(key, &memory);
    if (encoded.empty() || !(*index_)->is_ordered()) {
      return py::reinterpret_borrow<py::object>(Py_NotImplemented);
    }
    const ByteSpan group = encoded.first(group_size(encoder(), encoded));
    const std::optional<uint64_t> row =
        find_asof(encoded, group, rule, nullptr);
    return row ? read_columns(*row, nullptr) : py::none();
  }
  // Returns the row of an encoded key, or nullopt if no row matches. Unless
  // `on` is null, sets *on to the row's encoded value.
  std::optional<uint64_t> find_asof(ByteSpan key, ByteSpan group, AsofRule rule,
                                    std::string* on) const {
    if (row_keys_ == nullptr) {
      row_keys_ = unwrap(RowKeys::create(index_->file(), index_->columns()));
    }
    const auto find = [&] {
      const AsofFinder finder(
          {&index_->file(), &**index_, index_->is_cluster(), &index_->columns(),
           deleted_.get(), row_keys_.get()},
          index_->columns().size(), rule.backward);
      return finder.find_one(key, group, rule.exclusive, on);
    };
    Result<std::optional<uint64_t>> found = std::optional<uint64_t>();
    if (rows_->file().file().mapped() != nullptr) {
      found = find();
    } else {
      const WithoutGil nogil;
      found = find();
    }
    return unwrap(std::move(found));
  }
  // Finds the row of a key. `encoded` is the encoded form of `key`.
  py::object get_encoded(ByteSpan encoded, PyObject* key) const {
    const OpenFile& f = rows_->file();
    Result<std::optional<uint64_t>> found = std::optional<uint64_t>();
    if (f.file().mapped() != nullptr) {
      found = find_first(encoded);
    } else {
      const WithoutGil nogil;
      found = find_first(encoded);
    }
    const std::optional<uint64_t> row = unwrap(std::move(found));
    if (!row) return py::none();
    return read_columns(*row, key);
  }
  py::object read_row(uint64_t row) const { return read_columns(row, nullptr); }

 private:
  Result<std::optional<uint64_t>> find_first(ByteSpan key) const {
    if (deleted_ == nullptr) return (*index_)->find_first(key, rows_.get());
    return find_first_live(**index_, key, rows_.get(), *deleted_);
  }

  // Reads the columns that are not read value by value.
  std::optional<Column> read_batch(uint64_t row) const {
    std::optional<Column> out;
    if (batch_ == nullptr) return out;
    out.emplace(batch_->make_output());
    Status status;
    if (rows_->file().file().mapped() != nullptr) {
      status = batch_->take({&row, 1}, 1, &*out);
    } else {
      const WithoutGil nogil;
      status = batch_->take({&row, 1}, 1, &*out);
    }
    check(status);
    return out;
  }

  // `key` is the key by which the row was found, or null.
  py::object read_columns(uint64_t row, PyObject* key) const {
    std::optional<Column> batch = read_batch(row);
    // Copying a dict is faster than building it: the copy has the right size
    // and all names.
    py::object out =
        py::reinterpret_steal<py::object>(PyDict_Copy(blank_.ptr()));
    if (!out) throw py::error_already_set();
    if (batch) fill_from(&*batch, out.ptr());
    // Returns early if all columns were in the batch.
    if ((batch ? batch->children.size() : 0) == getters_.size()) return out;
    const RowLocation at = unwrap(RowLocation::find(rows_->file(), row));
    for (size_t i = 0; i < getters_.size(); i += kAhead) {
      fill(at, i, std::min(getters_.size(), i + kAhead), key, out.ptr());
    }
    return out;
  }

  void fill_from(Column* batch, PyObject* out) const {
    for (const Getter& g : getters_) {
      if (!g.is_batched()) continue;
      Column& column = batch->children[g.batch_column];
      set(out, g, g.row ? g.row->make(column, 0) : by_pyarrow(&column));
    }
  }
  // Converts the only row of a column with pyarrow. Moves the column's buffers
  // out of the column.
  PyObject* by_pyarrow(Column* column) const {
    const py::tuple capsules = array_capsules(std::move(*column));
    const py::object array = import_array_(capsules[0], capsules[1]);
    return py::object(array[py::int_(0)].attr("as_py")()).release().ptr();
  }

  // Fills those of columns [begin, end) that are read value by value. First
  // prefetches all decoders and values, then the items of lists. Decodes
  // afterwards.
  void fill(const RowLocation& at, size_t begin, size_t end, PyObject* key,
            PyObject* out) const {
    FlatPlace places[kAhead];
    std::vector<std::optional<ListValue>> lists;  // empty if there are no lists
    for (size_t i = begin; i < end; ++i) {
      const Getter& g = getters_[i];
      if (g.flat && known_part(g, key) == nullptr) {
        FlatPlace& place = places[i - begin];
        if (Status s = FlatPlace::find(at, *g.flat, &place); !s)
          fail(std::move(s), i);
        place.prefetch_decoders();
      } else if (g.list) {
        lists.resize(end - begin);
        ListValue& list = lists[i - begin].emplace();
        if (Status s = list.find(at, *g.list); !s) fail(std::move(s), i);
        list.prefetch_decoders();
      }
    }
    for (size_t i = 0; i < end - begin; ++i) {
      if (places[i].values.decoder != nullptr) places[i].prefetch();
    }
    for (std::optional<ListValue>& list : lists) {
      if (list) list->prefetch();
    }
    for (size_t i = begin; i < begin + lists.size(); ++i) {
      const Getter& g = getters_[i];
      if (!g.list) continue;
      if (Status s = lists[i - begin]->find_items(at, *g.list); !s)
        fail(std::move(s), i);
    }
    for (size_t i = begin; i < end; ++i) {
      const Getter& g = getters_[i];
      if (g.list) {
        set(out, g, make_list(at, g, &*lists[i - begin], i));
        continue;
      }
      if (!g.flat) continue;
      if (PyObject* const part = known_part(g, key)) {
        set(out, g, Py_NewRef(part));
        continue;
      }
      FlatValue value;
      if (Status s = value.read(*g.flat, places[i - begin]); !s)
        fail(std::move(s), i);
      set(out, g, make_flat(g, value, i));
    }
  }
  // Returns null if a Python error is set.
  PyObject* make_list(const RowLocation& at, const Getter& g, ListValue* list,
                      size_t column) const {
    if (Status s = list->read(at, *g.list); !s) fail(std::move(s), column);
    if (list->is_null()) return Py_NewRef(Py_None);
    PyObject* const out = PyList_New(static_cast<Py_ssize_t>(list->size()));
    if (out == nullptr) return nullptr;
    for (uint64_t i = 0; i < list->size(); ++i) {
      PyObject* item = nullptr;
      if (list->is_item_null(i)) {
        item = Py_NewRef(Py_None);
      } else {
        const ByteSpan bytes = list->item(*g.list, i);
        item = g.value.make(bytes.data(), bytes.size());
      }
      if (item == nullptr) {
        Py_DECREF(out);
        return nullptr;
      }
      PyList_SET_ITEM(out, static_cast<Py_ssize_t>(i), item);
    }
    return out;
  }
  PyObject* make_flat(const Getter& g, const FlatValue& value,
                      size_t column) const {
    if (value.is_null()) return Py_NewRef(Py_None);
    if (g.flat->layout != Layout::kDictionary) {
      return g.value.make(value.data(), value.size());
    }
    const auto dictionary = unwrap(dictionary_of(rows_->file(), g.node));
    // as a large number, a negative code is out of range too
    uint64_t code = 0;
    std::memcpy(&code, value.data(), value.size());
    if (code >= dictionary->values.length()) {
      fail(Status::corrupt("a code is outside the dictionary"), column);
    }
    return g.row->make(dictionary->values, code);
  }
  // Steals a reference to `value`. Null means that a Python error is set.
  static void set(PyObject* out, const Getter& getter, PyObject* value) {
    if (value == nullptr) throw py::error_already_set();
    const int failed = PyDict_SetItem(out, getter.name.ptr(), value);
    Py_DECREF(value);
    if (failed != 0) throw py::error_already_set();
  }

  // If the row was found by key, returns the part of the key that equals the
  // column. Otherwise returns null. The result is borrowed.
  PyObject* known_part(const Getter& getter, PyObject* key) const {
    const bool known = getter.key_part && key != nullptr;
    return known ? key_.part(key, *getter.key_part) : nullptr;
  }

  [[noreturn]] void fail(Status status, size_t column) const {
    raise(std::move(status).with_context(
        rows_->file().file().name() + ": column '" +
        rows_->schema().children[column].name + "'"));
  }

  friend class Getters<PointReader>;

  std::shared_ptr<RowReader> rows_;
  std::shared_ptr<const IndexHandle> index_;
  std::shared_ptr<const RowBitmap> deleted_;
  PointKey key_;
  std::vector<Getter> getters_;
  std::shared_ptr<const RowReader> batch_;  // null: all columns are flat
  // For as-of searches. Null until the first one needs it.
  mutable std::unique_ptr<const RowKeys> row_keys_;
  py::dict blank_;  // all names, with the values of names that are not columns
  py::object import_array_;
};

// Like PointReader, for many files: searches the files that may have the key.
class FilesPointReader : public std::enable_shared_from_this<FilesPointReader> {
 public:
  using Numbers = py::array_t<int64_t, py::array::c_style>;
  // A column of the key, with its minimum and maximum in each file as stored
  // integers.
  using ColumnEnds = std::tuple<size_t, Numbers, Numbers>;

  // `keys` is a batch of the key columns. `orders` has (descending, nulls
  // first) for each column. `order`: see PointKey. open_files(files) returns
  // for each file its PointReader, or None.
  // REQUIRES: files are sorted by their lower bounds.
  FilesPointReader(const py::object& keys, const KeyOrders& orders,
                   std::vector<size_t> order,
                   std::shared_ptr<const KeyBounds> bounds,
                   std::vector<ColumnEnds> ends, py::function open_files)
      : encoder_(encoder_of(keys, orders)),
        key_(&encoder_, std::move(order)),
        ends_(std::move(ends)),
        open_files_(std::move(open_files)),
        files_(unwrap(FilesByKey::create(
            &encoder_, std::move(bounds), column_bounds(),
            [this](std::span<const size_t> files) { return open(files); }))) {}

  py::object getter() const { return Getters<FilesPointReader>::make(*this); }

 private:
  friend class Getters<FilesPointReader>;

  static KeyEncoder encoder_of(const py::object& keys,
                               const KeyOrders& orders) {
    const auto batch = ImportedArray::from_python(keys);
    return unwrap(KeyEncoder::create(batch->field(), key_specs(orders)));
  }
  std::vector<ColumnBounds> column_bounds() const {
    const auto span_of = [](const Numbers& numbers) {
      return std::span(numbers.data(), static_cast<size_t>(numbers.size()));
    };
    std::vector<ColumnBounds> out;
    for (const auto& [column, minimum, maximum] : ends_) {
      out.push_back({column, span_of(minimum), span_of(maximum)});
    }
    return out;
  }

  py::object get(PyObject* key) const {
    PointKey::Memory memory;
    FilesByKey::Key asked;
    asked.encoded = key_.encode(key, &memory);
    if (asked.encoded.empty()) return not_implemented();
    for (const ColumnBounds& bounds : files_.column_bounds()) {
      asked.values.push_back(key_.integer(key, bounds.column));
    }
    py::object row = py::none();
    const bool is_answer =
        unwrap(files_.search(asked, [&](const KeyedFile& file) {
          row = static_cast<const PointReader&>(file).get_encoded(asked.encoded,
                                                                  key);
          return !row.is_none();
        }));
    return is_answer ? row : not_implemented();
  }
  static py::object not_implemented() {
    return py::reinterpret_borrow<py::object>(Py_NotImplemented);
  }

 public:
  // Finds the row for a key, as of the value of its last column.
  py::object asof(PyObject* key, AsofRule rule) const {
    PointKey::Memory memory;
    const ByteSpan encoded = key_.encode(key, &memory);
    if (encoded.empty()) return not_implemented();
    const ByteSpan group = encoded.first(group_size(encoder_, encoded));
    const bool is_descending = encoder_.columns().back().order.descending;
    const bool is_nearest_last = rule.backward != is_descending;
    std::optional<std::vector<size_t>> files =
        is_nearest_last ? files_.between(group, encoded, kMostAsofFiles)
                        : files_.between(encoded, group, kMostAsofFiles);
    if (!files) return not_implemented();
    if (is_nearest_last) std::reverse(files->begin(), files->end());
    std::shared_ptr<const KeyedFile> best;
    uint64_t best_row = 0;
    std::string best_on;
    for (const size_t number : *files) {
      if (best && !may_improve(number, group, best_on, is_nearest_last)) {
        continue;
      }
      FilesByKey::FilePtr file = unwrap(files_.file(number));
      if (file == nullptr) return not_implemented();
      std::string on;
      const std::optional<uint64_t> row =
          static_cast<const PointReader&>(*file).find_asof(
              encoded, group, rule, files->size() == 1 ? nullptr : &on);
      if (!row) continue;
      if (best && (is_nearest_last ? on <= best_on : on >= best_on)) continue;
      best = std::move(file);
      best_row = *row;
      best_on = std::move(on);
    }
    if (!best) return py::none();
    return static_cast<const PointReader&>(*best).read_row(best_row);
  }

 private:
  // With more files than this, Python code finds out which files to search.
  static constexpr size_t kMostAsofFiles = 32;

  // Whether a file may have a nearer row than the best row so far.
  bool may_improve(size_t file, ByteSpan group, const std::string& best_on,
                   bool is_nearest_last) const {
    const ByteSpan bound = is_nearest_last ? files_.bounds().upper(file)
                                           : files_.bounds().lower(file);
    if (bound.size() < group.size() ||
        compare_bytes(bound.first(group.size()), group) != 0) {
      return true;
    }
    const ByteSpan on = bound.subspan(group.size() - 1);
    const ByteSpan best{reinterpret_cast<const uint8_t*>(best_on.data()),
                        best_on.size()};
    const int sign = compare_bytes(on, best);
    return is_nearest_last ? sign > 0 : sign < 0;
  }

  Result<std::vector<FilesByKey::FilePtr>> open(
      std::span<const size_t> files) const {
    const std::vector<size_t> numbers(files.begin(), files.end());
    const auto readers =
        open_files_(numbers)
            .cast<std::vector<std::shared_ptr<const PointReader>>>();
    return std::vector<FilesByKey::FilePtr>(readers.begin(), readers.end());
  }

  const KeyEncoder encoder_;
  const PointKey key_;
  const std::vector<ColumnEnds> ends_;
  const py::function open_files_;
  mutable FilesByKey files_;  // the GIL serializes its calls
};

}  // namespace

void register_point_reader(py::module_& m) {
  py::class_<PointReader, std::shared_ptr<PointReader>>(m, "PointReader")
      .def(py::init([](std::shared_ptr<RowReader> rows,
                       const std::shared_ptr<IndexHandle>& index,
                       std::vector<size_t> order,
                       const std::shared_ptr<RowBitmap>& deleted,
                       const py::dict& blank) {
             return std::make_shared<PointReader>(
                 std::move(rows), index, std::move(order), deleted, blank);
           }),
           py::arg("projection"), py::arg("index"), py::arg("order"),
           py::arg("deleted") = nullptr, py::arg("blank") = py::dict())
      .def("getter", &PointReader::getter)
      .def("asof_getter", &asof_getter<PointReader>, py::arg("backward"),
           py::arg("exclusive"))
      .def("read", &PointReader::read, py::arg("row"));
  py::class_<FilesPointReader, std::shared_ptr<FilesPointReader>>(
      m, "FilesPointReader")
      .def(py::init<const py::object&, const KeyOrders&, std::vector<size_t>,
                    std::shared_ptr<KeyBounds>,
                    std::vector<FilesPointReader::ColumnEnds>, py::function>(),
           py::arg("keys"), py::arg("orders"), py::arg("order"),
           py::arg("bounds"), py::arg("ends"), py::arg("open_files"))
      .def("getter", &FilesPointReader::getter)
      .def("asof_getter", &asof_getter<FilesPointReader>, py::arg("backward"),
           py::arg("exclusive"));
}

}  // namespace nimble
