// Questions to one index of a file, by its number: -1 is the cluster index,
// others are those of the footer. Answers are file rows, or places in the
// order of an index.
#include <pybind11/stl.h>

#include "nimble/bindings/core_file.h"
#include "nimble/bindings/errors.h"
#include "nimble/bindings/gil.h"
#include "nimble/lookup/open_index.h"

namespace py = pybind11;

namespace nimble {
namespace {

// An index while it is asked. What it reads needs no GIL.
class Asked {
 public:
  Asked(const FileReader& file, int64_t index) {
    if (index < 0) {
      if (file.encoder() == nullptr) {
        raise(Status::not_found(file.file().name() + " has no cluster key"));
      }
      owned_ = open_cluster_lookup(file.cluster());
      lookup_ = owned_.get();
      columns_ = &file.footer().cluster->columns;
      return;
    }
    lookup_ = secondary_index(file, index);
    columns_ = &file.footer().indexes[static_cast<size_t>(index)].columns;
  }

  const IndexLookup& operator*() const { return *lookup_; }
  const IndexLookup* operator->() const { return lookup_; }
  const std::vector<KeyColumnSpec>& columns() const { return *columns_; }

 private:
  std::unique_ptr<const IndexLookup> owned_;
  const IndexLookup* lookup_ = nullptr;
  const std::vector<KeyColumnSpec>* columns_ = nullptr;
};

// Keys of a batch that has the first columns of an index's key. Without
// `null_equals`, keys with a null are left out: they match nothing.
struct AskedKeys {
  KeyBuffer keys;
  std::vector<uint8_t> left_out;  // of each row of the batch; empty: none
  size_t num_rows = 0;
  bool whole = false;

  AskedKeys(const Asked& asked, const py::object& object, bool null_equals) {
    const auto batch = ImportedArray::from_python(object);
    const ArrayView& view = batch->view();
    std::vector<KeyColumnSpec> specs;
    for (size_t i = 0; i < batch->field().children.size(); ++i) {
      specs.push_back({{static_cast<int>(i)}, asked.columns().at(i).order});
    }
    whole = specs.size() == asked.columns().size();
    num_rows = static_cast<size_t>(view.length());
    const KeyEncoder encoder =
        unwrap(KeyEncoder::create(batch->field(), specs));
    check(encoder.encode(view, 0, view.length(), &keys));
    for (const ArrayView& c : view.children()) {
      if (null_equals || !c.may_have_nulls()) continue;
      left_out.resize(num_rows);
      for (size_t i = 0; i < num_rows; ++i) {
        left_out[i] |= !c.is_valid(view.child_row(static_cast<int64_t>(i)));
      }
    }
    if (!left_out.empty()) drop();
  }

  // Calls take(i, request) for every row i of the batch: the number of its
  // key among those that are asked for, or none.
  template <class Take>
  void each(const Take& take) const {
    size_t request = 0;
    for (size_t i = 0; i < num_rows; ++i) {
      const bool asked = left_out.empty() || left_out[i] == 0;
      take(i, asked ? std::optional<size_t>(request++) : std::nullopt);
    }
  }

 private:
  void drop() {
    KeyBuffer kept(keys.fixed_width());
    for (size_t i = 0; i < num_rows; ++i) {
      if (left_out[i] == 0) kept.push_back(keys.key(i));
    }
    keys = std::move(kept);
  }
};

// CSR over the batch's rows: rows of probe i are rows[ends[i - 1], ends[i]).
// With `candidates`, rows of other keys may be among them.
py::tuple index_find(const FileReader& file, int64_t index,
                     const py::object& batch, bool null_equals,
                     bool candidates) {
  const Asked asked(file, index);
  const AskedKeys probes(asked, batch, null_equals);
  LookupAnswer answer;
  Status status;
  {
    const WithoutGil nogil;
    status = candidates
                 ? asked->find_candidates(probes.keys, probes.whole, &answer)
                 : asked->find(probes.keys, probes.whole, nullptr, &answer);
  }
  check(status);
  py::array_t<uint64_t> ends(static_cast<py::ssize_t>(probes.num_rows));
  py::array_t<uint64_t> rows(static_cast<py::ssize_t>([&answer] {
    uint64_t n = 0;
    for (const RowRange& r : answer.ranges) n += r.size();
    return n;
  }()));
  uint64_t* end = ends.mutable_data();
  uint64_t* row = rows.mutable_data();
  uint64_t* const first = row;
  size_t range = 0;
  probes.each([&](size_t, std::optional<size_t> request) {
    for (; request && range < answer.ends[*request]; ++range) {
      const RowRange r = answer.ranges[range];
      for (uint64_t x = r.begin; x < r.end; ++x) *row++ = x;
    }
    *end++ = static_cast<uint64_t>(row - first);
  });
  return py::make_tuple(ends, rows);
}

py::array_t<uint64_t> index_count(const FileReader& file, int64_t index,
                                  const py::object& batch, bool null_equals) {
  const Asked asked(file, index);
  const AskedKeys probes(asked, batch, null_equals);
  std::vector<uint64_t> counts;
  Status status;
  {
    const WithoutGil nogil;
    status = asked->count(probes.keys, probes.whole, &counts);
  }
  check(status);
  py::array_t<uint64_t> out(static_cast<py::ssize_t>(probes.num_rows));
  uint64_t* to = out.mutable_data();
  probes.each([&](size_t i, std::optional<size_t> request) {
    to[i] = request ? counts[*request] : 0;
  });
  return out;
}

py::tuple places_of(const Asked& asked, const KeyRange& range) {
  if (!asked->is_ordered()) {
    raise(Status::not_found("a hash index has no order"));
  }
  Result<PlaceRange> found = PlaceRange{};
  {
    const WithoutGil nogil;
    found = asked->find_range(range, nullptr);
  }
  const PlaceRange r = unwrap(std::move(found));
  return py::make_tuple(r.begin, std::max(r.begin, r.end));
}

// A bound given as one row of the first key columns; None: no limit.
struct Bound {
  std::unique_ptr<ImportedArray> batch;
  KeyBound bound;

  Bound(const py::object& object, bool inclusive) {
    bound.inclusive = inclusive;
    if (object.is_none()) return;
    batch = ImportedArray::from_python(object);
    bound.values = scalars_of(batch->view());
  }
};

py::tuple index_range(const FileReader& file, int64_t index,
                      const py::object& lower, bool lower_inclusive,
                      const py::object& upper, bool upper_inclusive,
                      bool by_value) {
  const Asked asked(file, index);
  const Bound low(lower, lower_inclusive), high(upper, upper_inclusive);
  const KeyEncoder& encoder = asked->encoder();
  return places_of(
      asked,
      unwrap(by_value ? value_range(encoder, low.bound, high.bound)
                      : key_order_range(encoder, low.bound, high.bound)));
}

py::tuple index_prefix(const FileReader& file, int64_t index,
                       const py::object& values, bool starts_with) {
  const Asked asked(file, index);
  const auto batch = ImportedArray::from_python(values);
  return places_of(
      asked, unwrap(equal_range(asked->encoder(), scalars_of(batch->view()),
                                starts_with)));
}

// Places of each key; none where a null is in it.
py::array_t<uint64_t> index_places(const FileReader& file, int64_t index,
                                   const py::object& batch, bool null_equals) {
  const Asked asked(file, index);
  const AskedKeys probes(asked, batch, null_equals);
  std::vector<PlaceRange> found;
  Status status;
  {
    const WithoutGil nogil;
    status = asked->find_places(probes.keys, &found);
  }
  check(status);
  if (probes.left_out.empty()) return ranges_to_numpy(found);
  std::vector<PlaceRange> all(probes.num_rows);
  probes.each([&](size_t i, std::optional<size_t> request) {
    if (request) all[i] = found[*request];
  });
  return ranges_to_numpy(all);
}

// The rows at these places, one range after the other.
py::array_t<uint64_t> index_rows(
    const FileReader& file, int64_t index,
    const py::array_t<uint64_t, py::array::c_style>& places) {
  const Asked asked(file, index);
  std::vector<uint64_t> rows;
  Status status;
  const std::vector<PlaceRange> wanted = ranges_from_numpy(places);
  for (const PlaceRange& p : wanted) {
    if (p.begin <= p.end && p.end <= file.num_rows()) continue;
    raise(Status::invalid_argument("places that the index does not have"));
  }
  {
    const WithoutGil nogil;
    status = asked->rows_at(wanted, &rows);
  }
  check(status);
  return py::array_t<uint64_t>(static_cast<py::ssize_t>(rows.size()),
                               rows.data());
}

// For each row of a batch of key columns whether it has the key of its probe:
// rows [ends[i - 1], ends[i]) belong to row i of `probes`.
py::array_t<bool> index_settle(
    const FileReader& file, int64_t index, const py::object& probes,
    const py::array_t<uint64_t, py::array::c_style>& ends,
    const py::object& rows) {
  const Asked asked(file, index);
  // As they are: nulls included, whatever they mean to the caller.
  const AskedKeys wanted(asked, probes, true), found(asked, rows, true);
  const uint64_t* end = ends.data();
  if (static_cast<size_t>(ends.size()) != wanted.num_rows ||
      (wanted.num_rows > 0 && end[wanted.num_rows - 1] != found.num_rows)) {
    raise(Status::invalid_argument("not the rows of these probes"));
  }
  py::array_t<bool> out(static_cast<py::ssize_t>(found.num_rows));
  bool* same = out.mutable_data();
  size_t at = 0;
  for (size_t i = 0; i < wanted.num_rows; ++i) {
    for (; at < end[i] && at < found.num_rows; ++at) {
      same[at] = compare_bytes(found.keys.key(at), wanted.keys.key(i)) == 0;
    }
  }
  return out;
}

}  // namespace

const IndexLookup* secondary_index(const FileReader& file, int64_t index) {
  const auto i = static_cast<size_t>(index);
  if (index < 0 || i >= file.footer().indexes.size()) {
    raise(Status::not_found(file.file().name() + " has no index " +
                            std::to_string(index)));
  }
  Result<const IndexLookup*> opened = nullptr;
  {
    const WithoutGil nogil;
    opened = file.index(i);
  }
  return unwrap(std::move(opened));
}

void register_index_functions(py::module_& m) {
  m.def("index_find", &index_find, py::arg("file"), py::arg("index"),
        py::arg("batch"), py::arg("null_equals"), py::arg("candidates"));
  m.def("index_count", &index_count, py::arg("file"), py::arg("index"),
        py::arg("batch"), py::arg("null_equals"));
  m.def("index_range", &index_range, py::arg("file"), py::arg("index"),
        py::arg("lower"), py::arg("lower_inclusive"), py::arg("upper"),
        py::arg("upper_inclusive"), py::arg("by_value"));
  m.def("index_prefix", &index_prefix, py::arg("file"), py::arg("index"),
        py::arg("values"), py::arg("starts_with"));
  m.def("index_rows", &index_rows, py::arg("file"), py::arg("index"),
        py::arg("places"));
  m.def("index_settle", &index_settle, py::arg("file"), py::arg("index"),
        py::arg("probes"), py::arg("ends"), py::arg("rows"));
  m.def("index_places", &index_places, py::arg("file"), py::arg("index"),
        py::arg("batch"), py::arg("null_equals"));
}

}  // namespace nimble
