// _core.PointReader: one row as a dict, the quickest way from a key to Python
// values. Works on mapped files; others read the row through a Projection.
#include <optional>

#include "nimble/bindings/core_file.h"
#include "nimble/bindings/errors.h"
#include "nimble/bindings/python_values.h"
#include "nimble/file/index_lookup.h"
#include "nimble/file/key_lookup.h"

namespace py = pybind11;

namespace nimble {
namespace {

class PointReader {
 public:
  // `fallback(row, columns)` gives a dict of the columns that ValueMaker does
  // not know; of all columns where the file is not mapped.
  // Keys are those of a secondary index, or of the cluster index where `index`
  // is below 0.
  PointReader(std::shared_ptr<RowReader> rows, py::object fallback,
              int64_t index)
      : rows_(std::move(rows)), fallback_(std::move(fallback)) {
    const FileReader& f = rows_->file();
    if (index >= 0) {
      Result<const IndexLookup*> opened = nullptr;
      {
        const py::gil_scoped_release nogil;
        opened = f.index(static_cast<size_t>(index));
      }
      lookup_ = unwrap(std::move(opened));
    }
    for (size_t i = 0; i < rows_->schema().children.size(); ++i) {
      const Field& field = rows_->schema().children[i];
      Getter g;
      g.name = py::str(field.name);
      PyUnicode_InternInPlace(&g.name.ptr());
      const SchemaNode& n = f.plan().node(rows_->node(i));
      g.direct = ValueMaker::knows(field) && !rows_->is_nested(i) &&
                 n.values != kNoStream && f.file().mapped() != nullptr;
      if (g.direct) g.maker = ValueMaker(field);
      if (!g.direct) others_.append(g.name);
      g.layout = field.layout;
      g.validity = n.validity;
      g.values = n.values;
      getters_.push_back(std::move(g));
    }
  }

  // Row of the first match of a key of one int or text column; None where
  // there is no match; NotImplemented where the key needs Python's help.
  py::object find(const py::handle& key) const {
    const KeyEncoder* encoder =
        lookup_ != nullptr ? &lookup_->encoder() : rows_->file().encoder();
    if (encoder == nullptr || encoder->columns().size() != 1) {
      return not_implemented();
    }
    const KeyColumn& column = encoder->columns()[0];
    if (column.logical == Logical::kInt && PyLong_CheckExact(key.ptr())) {
      int overflow = 0;
      const long long v = PyLong_AsLongLongAndOverflow(key.ptr(), &overflow);
      uint8_t bytes[KeyEncoder::kMaxIntKey];
      const size_t n = overflow != 0 ? 0 : encoder->encode_int_key(v, bytes);
      // Out of the column's range: maybe beyond int64, maybe not there at all.
      if (n == 0) return not_implemented();
      return find_bytes({bytes, n});
    }
    if (column.logical == Logical::kText && PyUnicode_CheckExact(key.ptr())) {
      Py_ssize_t size = 0;
      const char* text = PyUnicode_AsUTF8AndSize(key.ptr(), &size);
      if (text == nullptr) throw py::error_already_set();
      uint8_t small[256];
      if (KeyEncoder::max_text_key(static_cast<size_t>(size)) > sizeof small) {
        return not_implemented();
      }
      const size_t n = encoder->encode_text_key(
          {text, static_cast<size_t>(size)}, small);
      if (n == 0) return not_implemented();
      return find_bytes({small, n});
    }
    return not_implemented();
  }

  // The row as a dict.
  py::dict read(uint64_t row) const {
    py::dict out;
    const FileReader& f = rows_->file();
    if (row >= f.num_rows()) {
      raise(Status::invalid_argument("row " + std::to_string(row) +
                                     " of a file of " +
                                     std::to_string(f.num_rows()) + " rows"));
    }
    // One round of reads for all of them.
    py::dict others;
    if (!others_.empty()) others = fallback_(row, others_);
    if (f.file().mapped() == nullptr) return others;
    const GroupCache::Pin pin(f.groups());
    const LoadedGroup* group = unwrap(f.groups().get(f.group_of(row)));
    const StripeView& stripe = group->view().stripe_of(row);
    const uint64_t local = row - stripe.first_row;
    for (size_t i = 0; i < getters_.size(); ++i) {
      const Getter& g = getters_[i];
      PyObject* value = g.direct ? get(g, i, *group, stripe, local)
                                 : py::object(others[g.name]).release().ptr();
      if (value == nullptr) throw py::error_already_set();
      const int failed = PyDict_SetItem(out.ptr(), g.name.ptr(), value);
      Py_DECREF(value);
      if (failed != 0) throw py::error_already_set();
    }
    return out;
  }

  // find() and read() in one call: the dict, None, or NotImplemented.
  py::object get_row(const py::handle& key) const {
    py::object row = find(key);
    if (!PyLong_CheckExact(row.ptr())) return row;
    return read(PyLong_AsUnsignedLongLong(row.ptr()));
  }

 private:
  struct Getter {
    py::object name;
    bool direct = false;
    ValueMaker maker;
    Layout layout = Layout::kFixed;
    uint32_t validity = kNoStream;
    uint32_t values = kNoStream;
  };

  static py::object not_implemented() {
    return py::reinterpret_borrow<py::object>(Py_NotImplemented);
  }

  // The first row that the secondary index has for a key.
  Result<RowRange> find_secondary(ByteSpan key) const {
    KeyBuffer keys;
    keys.push_back(key);
    LookupAnswer answer;
    NIMBLE_RETURN_IF_ERROR(lookup_->find_keys(keys, true, &answer));
    return answer.ranges.empty() ? RowRange{} : answer.ranges.front();
  }

  py::object find_bytes(ByteSpan key) const {
    const FileReader& f = rows_->file();
    Result<RowRange> found = RowRange{};
    if (f.file().mapped() != nullptr) {
      const GroupCache::Pin pin(f.groups());
      found = lookup_ ? find_secondary(key) : KeyCursor(f).find_key(key);
    } else if (lookup_ != nullptr) {
      const py::gil_scoped_release nogil;
      found = find_secondary(key);
    } else {
      const py::gil_scoped_release nogil;
      const GroupCache::Pin pin(f.groups());
      found = KeyCursor(f).find_key(key);
    }
    const RowRange r = unwrap(std::move(found));
    if (r.empty()) return py::none();
    return py::int_(r.begin);
  }

  // Decodes one value of a stream into `out`.
  Status decode(const LoadedGroup& group, const StripeView& stripe,
                uint32_t stream, uint64_t row, const Output& out) const {
    const FileReader& f = rows_->file();
    if (row >= stripe.values[stream]) {
      return Status::corrupt("stream " + std::to_string(stream) + " has only " +
                             std::to_string(stripe.values[stream]) + " values");
    }
    const auto index = static_cast<uint32_t>(row / kSegmentValues);
    NIMBLE_ASSIGN_OR_RETURN(
        const Decoder* d,
        group.decoder(stripe, stream, index, f.plan().streams()[stream]));
    const uint32_t segment = stripe.first_segment[stream] + index;
    const SegmentBody body{f.file().mapped() + stripe.segment_offsets[segment],
                           stripe.segment_sizes[segment], true,
                           &f.stats()->touches};
    const auto local = static_cast<uint32_t>(row % kSegmentValues);
    return d->gather(body, &local, 1, out);
  }

  PyObject* get(const Getter& g, size_t column, const LoadedGroup& group,
                const StripeView& stripe, uint64_t row) const {
    alignas(64) uint8_t value[32 + AlignedBuffer::kSlack];
    Output to;
    to.data = value;
    Status status;
    if (g.validity != kNoStream && stripe.values[g.validity] > 0) {
      status = decode(group, stripe, g.validity, row, to);
      if (status && (value[0] & 1) == 0) return Py_NewRef(Py_None);
    }
    if (status && g.layout == Layout::kBytes) {
      thread_local BytesSink sink;
      sink.data.clear();
      sink.count = 0;
      sink.wide = true;
      to = Output{nullptr, 0, &sink};
      status = decode(group, stripe, g.values, row, to);
      if (status) {
        const uint8_t* p = sink.data.size() > 0 ? sink.data.data() : value;
        return g.maker.make(p, sink.data.size());
      }
    }
    if (status) status = decode(group, stripe, g.values, row, to);
    if (!status) {
      raise(std::move(status).with_context(
          rows_->file().file().name() + ": column '" +
          rows_->schema().children[column].name + "'"));
    }
    if (g.layout == Layout::kBool) value[0] &= 1;
    return g.maker.make(value, 0);
  }

  std::shared_ptr<RowReader> rows_;
  const IndexLookup* lookup_ = nullptr;  // null: the cluster index
  py::object fallback_;
  std::vector<Getter> getters_;
  py::list others_;  // names of columns that are not direct
};

}  // namespace

void register_point_reader(py::module_& m) {
  py::class_<PointReader>(m, "PointReader")
      .def(py::init<std::shared_ptr<RowReader>, py::object, int64_t>(),
           py::arg("projection"), py::arg("fallback"), py::arg("index") = -1)
      .def("find", &PointReader::find, py::arg("key"))
      .def("read", &PointReader::read, py::arg("row"))
      .def("get", &PointReader::get_row, py::arg("key"));
}

}  // namespace nimble
