// _core.RangeReader: reads the rows between bounds, or with a prefix, to a
// pyarrow.Table in one call. Uses the cluster index or a sorted index.
// Positions are places in the order of the index. For the cluster index, places
// are rows.
#include <algorithm>
#include <numeric>

#include "nimble/bindings/index_handle.h"
#include "nimble/bindings/values/errors.h"
#include "nimble/bindings/values/gil.h"
#include "nimble/bindings/values/python_keys.h"

namespace py = pybind11;

namespace nimble {
namespace {

// With more rows than this, Python creates a stream of batches.
constexpr uint64_t kMaxBatchRows = 65536;

// Parses text like "[)", which says whether the bounds are included. Returns
// false for other text.
bool parse_inclusive(const py::handle& text, KeyBound* lower, KeyBound* upper) {
  if (!PyUnicode_CheckExact(text.ptr()) ||
      PyUnicode_GET_LENGTH(text.ptr()) != 2) {
    return false;
  }
  const Py_UCS4 open = PyUnicode_READ_CHAR(text.ptr(), 0);
  const Py_UCS4 close = PyUnicode_READ_CHAR(text.ptr(), 1);
  lower->inclusive = open == '[';
  upper->inclusive = close == ']';
  return (open == '[' || open == '(') && (close == ']' || close == ')');
}

// The part of the matching rows that the caller wants.
struct Wanted {
  uint64_t limit = UINT64_MAX;
  bool reverse = false;

  // Returns false if the limit is not a number of rows.
  bool parse(const py::handle& most, const py::handle& backwards) {
    const int truth = PyObject_IsTrue(backwards.ptr());
    if (truth < 0) throw py::error_already_set();
    reverse = truth != 0;
    if (most.is_none()) return true;
    if (!PyLong_CheckExact(most.ptr())) return false;
    int overflow = 0;
    const long long n = PyLong_AsLongLongAndOverflow(most.ptr(), &overflow);
    if (overflow != 0 || n < 0) return false;
    limit = static_cast<uint64_t>(n);
    return true;
  }
  RowRange cut(RowRange rows) const {
    rows.end = std::max(rows.begin, rows.end);
    const uint64_t n = std::min(limit, rows.size());
    return reverse ? RowRange{rows.end - n, rows.end}
                   : RowRange{rows.begin, rows.begin + n};
  }
};

class RangeReader {
 public:
  // Bounds have up to `width` key columns. `starts_with` is the Python class
  // that marks a string prefix.
  RangeReader(std::shared_ptr<RowReader> rows,
              std::shared_ptr<const IndexHandle> index, size_t width,
              py::object starts_with)
      : rows_(std::move(rows)),
        index_(std::move(index)),
        encoder_((*index_)->encoder()),
        width_(width),
        starts_with_(std::move(starts_with)) {
    index_->check_same_file(*rows_);
    index_->check_ordered();
    if (width == 0 || width > encoder_.columns().size()) {
      raise(Status::invalid_argument("the bounds must be of 1 to " +
                                     std::to_string(encoder_.columns().size()) +
                                     " columns, not " + std::to_string(width)));
    }
    const py::module_ arrow = py::module_::import("pyarrow");
    schema_ = arrow.attr("Schema").attr("_import_from_c_capsule")(
        schema_capsule(rows_->schema()));
    import_batch_ = arrow.attr("RecordBatch").attr("_import_from_c");
    make_table_ = arrow.attr("Table").attr("from_batches");
  }

  // Both functions return NotImplemented if keys.py must convert the arguments.
  // They return (begin, end) if there are too many rows for one batch.
  py::object range(const py::handle& lower, const py::handle& upper,
                   const py::handle& inclusive, const py::handle& limit,
                   const py::handle& reverse) const {
    Wanted wanted;
    std::optional<KeyRange> keys = key_range(lower, upper, inclusive);
    if (!keys || !wanted.parse(limit, reverse)) return not_implemented();
    return read(*keys, wanted);
  }
  py::object prefix(const py::handle& value, const py::handle& limit,
                    const py::handle& reverse) const {
    Wanted wanted;
    std::optional<KeyRange> keys = prefix_keys(value);
    if (!keys || !wanted.parse(limit, reverse)) return not_implemented();
    return read(*keys, wanted);
  }
  std::shared_ptr<RowReader> projection() const { return rows_; }
  // Like range() and prefix(), but return (begin, end) without reading rows.
  // REQUIRES: the index is the cluster index.
  py::object range_rows(const py::handle& lower, const py::handle& upper,
                        const py::handle& inclusive) const {
    const std::optional<KeyRange> keys = key_range(lower, upper, inclusive);
    return keys ? find(*keys) : not_implemented();
  }
  py::object prefix_rows(const py::handle& value) const {
    const std::optional<KeyRange> keys = prefix_keys(value);
    return keys ? find(*keys) : not_implemented();
  }

 private:
  static py::object not_implemented() {
    return py::reinterpret_borrow<py::object>(Py_NotImplemented);
  }

  std::optional<KeyRange> key_range(const py::handle& lower,
                                    const py::handle& upper,
                                    const py::handle& inclusive) const {
    KeyBound low, high;
    if (!parse_inclusive(inclusive, &low, &high) || !bound_of(lower, &low) ||
        !bound_of(upper, &high)) {
      return std::nullopt;
    }
    return unwrap(key_order_range(encoder_, low, high));
  }
  bool bound_of(const py::handle& value, KeyBound* bound) const {
    return value.is_none() ||
           to_key_scalars(encoder_, width_, value, &bound->values);
  }

  // Converts values of the leading columns. The last value may be a prefix.
  // Returns nullopt for nulls, because Python code handles them.
  std::optional<KeyRange> prefix_keys(const py::handle& value) const {
    std::vector<KeyScalar> values;
    const bool tuple = PyTuple_CheckExact(value.ptr());
    const auto n =
        tuple ? static_cast<size_t>(PyTuple_GET_SIZE(value.ptr())) : 1;
    if (n == 0 || n > width_) return std::nullopt;
    values.resize(n);
    bool starts = false;
    for (size_t i = 0; i < n; ++i) {
      const py::handle item = tuple ? PyTuple_GET_ITEM(value.ptr(), i) : value;
      starts = i + 1 == n && Py_IS_TYPE(item.ptr(), starts_with_type());
      if (starts ? !beginning_of(i, item, &values[i])
                 : !to_key_scalar(encoder_.columns()[i], item, &values[i])) {
        return std::nullopt;
      }
      if (values[i].kind == KeyScalar::Kind::kNull) return std::nullopt;
    }
    return unwrap(equal_range(encoder_, values, starts));
  }
  PyTypeObject* starts_with_type() const {
    return reinterpret_cast<PyTypeObject*>(starts_with_.ptr());
  }
  bool beginning_of(size_t column, const py::handle& marked,
                    KeyScalar* out) const {
    const KeyColumn& c = encoder_.columns()[column];
    // The caller holds the marker, which keeps the text alive.
    return c.kind == KeyKind::kBytes &&
           to_key_scalar(c, py::object(marked.attr("prefix")), out);
  }

  static py::tuple tuple_of(const RowRange& r) {
    return py::make_tuple(r.begin, r.end);
  }

  py::object find(const KeyRange& keys) const {
    if (!index_->is_cluster()) {
      raise(Status::invalid_argument(
          "this index is not the cluster index, so it cannot return a range of "
          "rows"));
    }
    return tuple_of(Wanted().cut(unwrap(without_gil(
        [&] { return (*index_)->find_range(keys, rows_.get()); }))));
  }

  py::object read(const KeyRange& keys, const Wanted& wanted) const {
    RowRange found;
    ArrowArray array{};
    Status status;
    {
      const WithoutGil nogil;
      status = find_and_read(keys, wanted, &found, &array);
    }
    check(status);
    return array.release != nullptr ? table_of(&array) : tuple_of(found);
  }

  // Sets array->release to null if the rows do not fit in one batch.
  Status find_and_read(const KeyRange& keys, const Wanted& wanted,
                       RowRange* found, ArrowArray* array) const {
    NIMBLE_ASSIGN_OR_RETURN(*found, (*index_)->find_range(keys, rows_.get()));
    *found = wanted.cut(*found);
    if (found->size() > kMaxBatchRows) return Status::ok();
    Column column = rows_->make_output();
    Status status =
        index_->is_cluster()
            ? read_rows(*found, wanted.reverse, std::move(column), array)
            : read_places(*found, wanted.reverse, std::move(column), array);
    // The bytes do not fit in one array, so several batches are needed.
    const bool large = status.code() == StatusCode::kTooLarge;
    return large ? Status::ok() : std::move(status);
  }

  Status read_rows(RowRange rows, bool reverse, Column column,
                   ArrowArray* array) const {
    NIMBLE_RETURN_IF_ERROR(rows_->read_ranges({&rows, 1}, 1, &column));
    if (!reverse) return std::move(column).export_array(array);
    std::vector<uint64_t> places(column.length());
    std::iota(places.rbegin(), places.rend(), uint64_t{0});
    Column reversed = rows_->make_output();
    reversed.append_rows(column, places.data(), places.size());
    return std::move(reversed).export_array(array);
  }

  Status read_places(const PlaceRange& places, bool reverse, Column column,
                     ArrowArray* array) const {
    std::vector<uint64_t> rows;
    NIMBLE_RETURN_IF_ERROR((*index_)->rows_at({&places, 1}, &rows));
    if (reverse) std::reverse(rows.begin(), rows.end());
    NIMBLE_RETURN_IF_ERROR(rows_->take(rows, 1, &column));
    return std::move(column).export_array(array);
  }

  py::object table_of(ArrowArray* array) const {
    struct Release {
      ArrowArray* array;
      ~Release() {
        if (array->release != nullptr) array->release(array);
      }
    } const release{array};
    py::list batches(1);
    batches[0] = import_batch_(reinterpret_cast<uintptr_t>(array), schema_);
    return make_table_(batches);
  }

  std::shared_ptr<RowReader> rows_;
  std::shared_ptr<const IndexHandle> index_;
  const KeyEncoder& encoder_;
  size_t width_;
  py::object starts_with_, schema_, import_batch_, make_table_;
};

}  // namespace

void register_range_reader(py::module_& m) {
  py::class_<RangeReader>(m, "RangeReader")
      .def(py::init([](std::shared_ptr<RowReader> rows,
                       const std::shared_ptr<IndexHandle>& index, size_t width,
                       py::type starts_with) {
             return std::make_unique<RangeReader>(std::move(rows), index, width,
                                                  std::move(starts_with));
           }),
           py::arg("projection"), py::arg("index"), py::arg("width"),
           py::arg("starts_with"))
      .def("range", &RangeReader::range, py::arg("lower"), py::arg("upper"),
           py::arg("inclusive"), py::arg("limit"), py::arg("reverse"))
      .def("prefix", &RangeReader::prefix, py::arg("prefix"), py::arg("limit"),
           py::arg("reverse"))
      .def_property_readonly("projection", &RangeReader::projection)
      .def("range_rows", &RangeReader::range_rows, py::arg("lower"),
           py::arg("upper"), py::arg("inclusive"))
      .def("prefix_rows", &RangeReader::prefix_rows, py::arg("prefix"));
}

}  // namespace nimble
