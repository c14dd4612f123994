// _core.PointReader: one row as a dict, the quickest way from a key to Python
// values. Works on mapped files; others read the row through a Projection.
#include <pybind11/stl.h>

#include <algorithm>
#include <optional>

#include "nimble/bindings/core_file.h"
#include "nimble/bindings/errors.h"
#include "nimble/bindings/python_keys.h"
#include "nimble/bindings/python_rows.h"
#include "nimble/bindings/python_values.h"
#include "nimble/file/index_lookup.h"
#include "nimble/file/key_lookup.h"

namespace py = pybind11;

namespace nimble {
namespace {

// What most decoders take.
constexpr size_t kDecoderBytes = 256;

// A stream of the row, ready to decode one value.
struct OneValue {
  const Decoder* decoder = nullptr;
  SegmentBody body;
  uint32_t row = 0;  // of the segment

  // First of the decoder, which must be there to ask for the value.
  void prefetch_decoder() const {
    const auto* p = reinterpret_cast<const uint8_t*>(decoder);
    for (size_t at = 0; at < kDecoderBytes; at += 64)
      __builtin_prefetch(p + at);
  }
  void prefetch() const { decoder->prefetch(body, row); }
  Status read(const Output& out) const {
    return decoder->gather(body, &row, 1, out);
  }
};

// The row of the file that is read, and where its streams are.
struct RowPlace {
  const FileReader& file;
  const LoadedGroup& group;
  const StripeView& stripe;
  uint64_t row;  // of the stripe

  Status stream(uint32_t number, OneValue* out) const {
    if (row >= stripe.values[number]) {
      return Status::corrupt("stream " + std::to_string(number) + " has only " +
                             std::to_string(stripe.values[number]) + " values");
    }
    const auto index = static_cast<uint32_t>(row / kSegmentValues);
    NIMBLE_ASSIGN_OR_RETURN(
        out->decoder,
        group.decoder(stripe, number, index, file.plan().streams()[number]));
    const uint32_t segment = stripe.first_segment[number] + index;
    out->body = {file.file().mapped() + stripe.segment_offsets[segment],
                 stripe.segment_sizes[segment], true, &file.stats()->touches};
    out->row = static_cast<uint32_t>(row % kSegmentValues);
    return Status::ok();
  }
};

class PointReader : public std::enable_shared_from_this<PointReader> {
 public:
  // `fallback(row, columns)` gives a dict of the columns that neither
  // ValueMaker nor RowMaker knows; of all where the file is not mapped.
  // Keys are those of a secondary index, or of the cluster index where `index`
  // is below 0. They are tuples of all its columns; the i-th one is item
  // order[i]. Without an order there is no way by key.
  PointReader(std::shared_ptr<RowReader> rows, py::object fallback,
              int64_t index, std::vector<size_t> order)
      : rows_(std::move(rows)),
        fallback_(std::move(fallback)),
        order_(std::move(order)) {
    const FileReader& f = rows_->file();
    encoder_ = f.encoder();
    if (index >= 0) {
      lookup_ = secondary_index(f, index);
      encoder_ = &lookup_->encoder();
    }
    if (encoder_ != nullptr) key_columns_ = encoder_->columns().size();
    check_order();
    for (size_t i = 0; i < rows_->schema().children.size(); ++i) {
      add_column(i);
    }
    if (!nested_names_.empty()) {
      nested_ = unwrap(RowReader::create(rows_->file_owner(), nested_names_));
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
    const FileReader& f = rows_->file();
    if (row >= f.num_rows()) {
      raise(Status::invalid_argument("row " + std::to_string(row) +
                                     " of a file of " +
                                     std::to_string(f.num_rows()) + " rows"));
    }
    const GroupCache::Pin pin(f.groups());
    return read_pinned(row, nullptr);
  }

 private:
  struct Getter {
    py::object name;
    ValueMaker maker;
    bool direct = false;
    // Otherwise, with a maker: number of the column in `nested_`.
    std::optional<RowMaker> nested;
    size_t nested_column = 0;
    // The part of the key that a row which was found by it has here.
    std::optional<size_t> key_part;
    Layout layout = Layout::kFixed;
    uint32_t validity = kNoStream;
    uint32_t values = kNoStream;
  };
  // The row's columns that are not direct.
  struct Slow {
    const py::object& others;
    const std::optional<Column>& nested;
  };
  // Columns whose bytes are on their way at once.
  static constexpr size_t kAhead = 16;

  void check_order() {
    std::vector<size_t> sorted = order_;
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i < sorted.size(); ++i) {
      if (sorted[i] == i && sorted.size() == key_columns_) continue;
      raise(Status::invalid_argument("not an order of all key columns"));
    }
  }

  void add_column(size_t i) {
    const FileReader& f = rows_->file();
    const Field& field = rows_->schema().children[i];
    Getter g;
    g.name = py::str(field.name);
    PyUnicode_InternInPlace(&g.name.ptr());
    const SchemaNode& n = f.plan().node(rows_->node(i));
    g.direct = ValueMaker::knows(field) && !rows_->is_nested(i) &&
               n.values != kNoStream && f.file().mapped() != nullptr;
    if (g.direct) g.maker = ValueMaker(field);
    if (!g.direct) add_nested(field, i, &g);
    // Only where equal keys are equal objects.
    const bool is_same =
        field.logical == Logical::kInt || field.logical == Logical::kText;
    const bool by_cluster = lookup_ == nullptr && g.direct && is_same;
    for (size_t k = 0; k < key_columns_ && by_cluster; ++k) {
      const std::vector<int>& path = f.footer().cluster->columns[k].path;
      if (path.size() != 1) continue;
      const auto top = static_cast<size_t>(path[0]);
      if (f.plan().node(0).children[top] == rows_->node(i)) g.key_part = k;
    }
    g.layout = field.layout;
    g.validity = n.validity;
    g.values = n.values;
    blank_[g.name] = py::none();
    getters_.push_back(std::move(g));
  }

  void add_nested(const Field& field, size_t i, Getter* g) {
    const FileReader& f = rows_->file();
    const auto path = find_path(f.footer().schema, field.name);
    // A name may mean another column than the one at hand.
    const bool is_top =
        path && path->size() == 1 && !rows_->is_nested(i) &&
        f.plan().node(0).children[static_cast<size_t>(path->front())] ==
            rows_->node(i);
    if (is_top && f.file().mapped() != nullptr)
      g->nested = RowMaker::create(field);
    if (!g->nested) return others_.append(g->name);
    g->nested_column = nested_names_.size();
    nested_names_.push_back(field.name);
  }

  static PyObject* call_get(PyObject* owner, PyObject* key) {
    const auto* self = static_cast<std::shared_ptr<const PointReader>*>(
        PyCapsule_GetPointer(owner, nullptr));
    try {
      return (*self)->get(key).release().ptr();
    } catch (py::error_already_set& e) {
      e.restore();
    } catch (const std::exception& e) {
      PyErr_SetString(PyExc_RuntimeError, e.what());
    }
    return nullptr;
  }

  py::object get(PyObject* key) const {
    uint8_t bytes[256];
    const ByteSpan encoded = order_.empty() ? ByteSpan{} : encode(key, bytes);
    if (encoded.empty()) {
      return py::reinterpret_borrow<py::object>(Py_NotImplemented);
    }
    const FileReader& f = rows_->file();
    const GroupCache::Pin pin(f.groups());
    Result<RowRange> found = RowRange{};
    if (f.file().mapped() != nullptr) {
      found = find(encoded);
    } else {
      const py::gil_scoped_release nogil;
      found = find(encoded);
    }
    const RowRange r = unwrap(std::move(found));
    if (r.empty()) return py::none();
    return read_pinned(r.begin, key);
  }

  // The first rows of a key.
  Result<RowRange> find(ByteSpan key) const {
    if (lookup_ == nullptr) {
      return KeyCursor(rows_->file(), rows_.get()).find_key(key);
    }
    KeyBuffer keys;
    keys.push_back(key);
    LookupAnswer answer;
    NIMBLE_RETURN_IF_ERROR(lookup_->find_keys(keys, true, &answer));
    return answer.ranges.empty() ? RowRange{} : answer.ranges.front();
  }

  // The encoded form of a key; empty where nimblepy/keys.py has to look at it.
  ByteSpan encode(PyObject* key, uint8_t (&bytes)[256]) const {
    if (key_columns_ != 1) return encode_tuple(key);
    const KeyEncoder& encoder = *encoder_;
    const Logical logical = encoder.columns()[0].logical;
    if (logical == Logical::kInt && PyLong_CheckExact(key)) {
      int overflow = 0;
      const long long v = PyLong_AsLongLongAndOverflow(key, &overflow);
      // Out of the column's range: maybe beyond int64, maybe not there at all.
      if (overflow != 0) return {};
      return {bytes, encoder.encode_int_key(v, bytes)};
    }
    if (logical == Logical::kText && PyUnicode_CheckExact(key)) {
      Py_ssize_t size = 0;
      const char* text = PyUnicode_AsUTF8AndSize(key, &size);
      if (text == nullptr) throw py::error_already_set();
      const auto n = static_cast<size_t>(size);
      if (KeyEncoder::max_text_key(n) <= sizeof bytes) {
        return {bytes, encoder.encode_text_key({text, n}, bytes)};
      }
    }
    return PyTuple_Check(key) ? ByteSpan{} : encode_tuple(key);
  }

  // The same for keys of any type and number of columns.
  ByteSpan encode_tuple(PyObject* key) const {
    thread_local std::vector<KeyScalar> values;
    thread_local ByteBuffer encoded;
    if (order_.empty() || !values_of(key, &values)) return {};
    for (const KeyScalar& v : values) {
      if (v.kind == KeyScalar::Kind::kNull) return {};
    }
    encoded.clear();
    check(encoder_->encode_tuple(values, &encoded));
    return encoded.span();
  }

  // The values of a key in the order of the key's columns.
  bool values_of(PyObject* key, std::vector<KeyScalar>* values) const {
    values->resize(key_columns_);
    const auto& columns = encoder_->columns();
    if (!PyTuple_CheckExact(key)) {
      return key_columns_ == 1 &&
             to_key_scalar(columns[0], key, &values->front());
    }
    if (static_cast<size_t>(PyTuple_GET_SIZE(key)) != key_columns_) {
      return false;
    }
    for (size_t i = 0; i < key_columns_; ++i) {
      PyObject* const item =
          PyTuple_GET_ITEM(key, static_cast<Py_ssize_t>(order_[i]));
      if (!to_key_scalar(columns[i], item, &(*values)[i])) return false;
    }
    return true;
  }

  // `key` is the one that the row was found by, or null.
  py::object read_pinned(uint64_t row, PyObject* key) const {
    const FileReader& f = rows_->file();
    // One round of reads for all of them.
    py::object others;
    if (!others_.empty()) others = fallback_(row, others_);
    if (f.file().mapped() == nullptr) return others;
    std::optional<Column> nested;
    if (nested_ != nullptr) {
      nested.emplace(nested_->make_output());
      check(nested_->take({&row, 1}, 1, &*nested));
    }
    const LoadedGroup& group = *unwrap(f.groups().get(f.group_of(row)));
    const StripeView& stripe = group.view().stripe_of(row);
    const RowPlace place{f, group, stripe, row - stripe.first_row};
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
      if (!g.direct || (g.key_part && key != nullptr)) continue;
      OneValue& value = values[i - begin];
      if (Status s = place.stream(g.values, &value); !s) fail(std::move(s), i);
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
      } else if (g.key_part && key != nullptr) {
        made = Py_NewRef(key_columns_ == 1
                             ? key
                             : PyTuple_GET_ITEM(key, static_cast<Py_ssize_t>(
                                                         order_[*g.key_part])));
      } else {
        made = make(place, i, values[i - begin]);
      }
      if (made == nullptr) throw py::error_already_set();
      const int failed = PyDict_SetItem(out, g.name.ptr(), made);
      Py_DECREF(made);
      if (failed != 0) throw py::error_already_set();
    }
  }

  // The value as a new reference; null with a Python error set.
  PyObject* make(const RowPlace& place, size_t column,
                 const OneValue& value) const {
    const Getter& g = getters_[column];
    alignas(64) uint8_t bytes[32 + AlignedBuffer::kSlack];
    Output to;
    to.data = bytes;
    if (g.validity != kNoStream && place.stripe.values[g.validity] > 0) {
      OneValue validity;
      Status s = place.stream(g.validity, &validity);
      if (s) s = validity.read(to);
      if (!s) fail(std::move(s), column);
      if ((bytes[0] & 1) == 0) return Py_NewRef(Py_None);
    }
    if (g.layout == Layout::kBytes) return make_bytes(column, value);
    if (Status s = value.read(to); !s) fail(std::move(s), column);
    if (g.layout == Layout::kBool) bytes[0] &= 1;
    return g.maker.make(bytes, 0);
  }

  PyObject* make_bytes(size_t column, const OneValue& value) const {
    thread_local BytesSink kept;  // its memory
    BytesSink& sink = kept;
    sink.data.clear();
    sink.count = 0;
    sink.wide = true;
    if (Status s = value.read(Output{nullptr, 0, &sink}); !s) {
      fail(std::move(s), column);
    }
    static const uint8_t nothing = 0;
    const size_t size = sink.data.size();
    return getters_[column].maker.make(size > 0 ? sink.data.data() : &nothing,
                                       size);
  }

  [[noreturn]] void fail(Status status, size_t column) const {
    raise(std::move(status).with_context(
        rows_->file().file().name() + ": column '" +
        rows_->schema().children[column].name + "'"));
  }

  std::shared_ptr<RowReader> rows_;
  py::object fallback_;
  std::vector<size_t> order_;
  const IndexLookup* lookup_ = nullptr;  // null: the cluster index
  const KeyEncoder* encoder_ = nullptr;  // of keys; null: no index
  size_t key_columns_ = 0;
  std::vector<Getter> getters_;
  py::dict blank_;   // every name, no value
  py::list others_;  // names of columns that go through `fallback_`
  std::vector<std::string> nested_names_;
  std::shared_ptr<const RowReader> nested_;
};

}  // namespace

void register_point_reader(py::module_& m) {
  py::class_<PointReader, std::shared_ptr<PointReader>>(m, "PointReader")
      .def(py::init<std::shared_ptr<RowReader>, py::object, int64_t,
                    std::vector<size_t>>(),
           py::arg("projection"), py::arg("fallback"), py::arg("index"),
           py::arg("order"))
      .def("getter", &PointReader::getter)
      .def("read", &PointReader::read, py::arg("row"));
}

}  // namespace nimble
