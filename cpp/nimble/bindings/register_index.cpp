// _core.Index: one index of a file, the cluster index or a secondary index,
// with all lookups.
#include <pybind11/stl.h>

#include "nimble/bindings/index_handle.h"
#include "nimble/bindings/values/errors.h"
#include "nimble/bindings/values/gil.h"
#include "nimble/bindings/values/key_batch.h"
#include "nimble/locate/probe_rows.h"
#include "nimble/lookup/open_index.h"

namespace py = pybind11;

namespace nimble {

std::shared_ptr<const IndexHandle> IndexHandle::open(
    std::shared_ptr<const FileReader> file, std::optional<size_t> number) {
  std::shared_ptr<IndexHandle> out(new IndexHandle());
  const FileFooter& footer = file->footer();
  if (!number) {
    if (!footer.cluster || file->encoder() == nullptr) {
      raise(Status::not_found(file->file().name() + " has no cluster key"));
    }
    out->cluster_ = open_cluster_lookup(file->cluster());
    out->lookup_ = out->cluster_.get();
    out->columns_ = &footer.cluster->columns;
  } else {
    if (*number >= footer.indexes.size()) {
      raise(Status::not_found(file->file().name() + " has no index " +
                              std::to_string(*number)));
    }
    Result<const IndexLookup*> opened = nullptr;
    {
      const WithoutGil nogil;
      opened = file->index(*number);
    }
    out->lookup_ = unwrap(std::move(opened));
    out->columns_ = &footer.indexes[*number].columns;
  }
  out->file_ = std::move(file);
  return out;
}

void IndexHandle::check_ordered() const {
  if (lookup_->is_ordered()) return;
  raise(Status::not_found("a hash index does not order its keys"));
}

void IndexHandle::check_same_file(const RowReader& reader) const {
  if (&reader.file() == file_.get()) return;
  raise(Status::invalid_argument("the projection belongs to another file"));
}

namespace {

using Flags = KeyBatch::Flags;
using Impossible = std::optional<Flags>;
template <class T>
using Array = py::array_t<T, py::array::c_style>;

// Calls f() without the GIL and raises its error.
template <class F>
void ask(const F& f) {
  Status status;
  {
    const WithoutGil nogil;
    status = f();
  }
  check(status);
}

template <class T>
Array<T> to_numpy(const std::vector<T>& values) {
  return Array<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

LookupAnswer find_answer(const IndexHandle& index, const KeyBatch& batch) {
  LookupAnswer answer;
  ask([&] {
    return index->find(batch.keys(), batch.whole(), nullptr, &answer);
  });
  return answer;
}

// Calls take(range, row of the batch) for every non-empty range.
template <class Take>
void each_range(const LookupAnswer& answer, const KeyBatch& batch,
                const Take& take) {
  size_t at = 0;
  for (size_t i = 0; i < answer.ends.size(); ++i) {
    const auto number = static_cast<int64_t>(batch.row_of(i));
    for (; at < answer.ends[i]; ++at) {
      if (!answer.ranges[at].empty()) take(answer.ranges[at], number);
    }
  }
}

py::tuple find(const IndexHandle& index, const py::object& keys,
               bool null_equals, const Impossible& impossible) {
  const KeyBatch batch(index.columns(), keys, null_equals, impossible);
  const LookupAnswer answer = find_answer(index, batch);
  std::vector<RowRange> ranges;
  std::vector<int64_t> numbers;
  ranges.reserve(answer.ranges.size());
  numbers.reserve(answer.ranges.size());
  each_range(answer, batch, [&](const RowRange& range, int64_t number) {
    ranges.push_back(range);
    numbers.push_back(number);
  });
  return py::make_tuple(ranges_to_numpy(ranges), to_numpy(numbers));
}

py::tuple rows(const IndexHandle& index, const py::object& keys,
               bool null_equals, const Impossible& impossible) {
  const KeyBatch batch(index.columns(), keys, null_equals, impossible);
  const LookupAnswer answer = find_answer(index, batch);
  uint64_t total = 0;
  for (const RowRange& range : answer.ranges) total += range.size();
  Array<uint64_t> found(static_cast<py::ssize_t>(total));
  Array<int64_t> numbers(static_cast<py::ssize_t>(total));
  uint64_t* row = found.mutable_data();
  int64_t* to = numbers.mutable_data();
  each_range(answer, batch, [&](const RowRange& range, int64_t number) {
    for (uint64_t r = range.begin; r < range.end; ++r) {
      *row++ = r;
      *to++ = number;
    }
  });
  return py::make_tuple(found, numbers);
}

Array<uint64_t> candidates(const IndexHandle& index, const py::object& keys) {
  const KeyBatch batch(index.columns(), keys, false, {});
  std::vector<uint64_t> found;
  ask([&] {
    LookupAnswer answer;
    NIMBLE_RETURN_IF_ERROR(
        index->find_candidates(batch.keys(), batch.whole(), &answer));
    found = place_rows(rows_of(answer)).rows;
    return Status::ok();
  });
  return to_numpy(found);
}

Array<int64_t> count(const IndexHandle& index, const py::object& keys,
                     bool null_equals, const Impossible& impossible) {
  const KeyBatch batch(index.columns(), keys, null_equals, impossible);
  std::vector<uint64_t> counts;
  ask([&] { return index->count(batch.keys(), batch.whole(), &counts); });
  std::vector<int64_t> out(batch.num_rows());
  for (size_t i = 0; i < counts.size(); ++i) {
    out[batch.row_of(i)] = static_cast<int64_t>(counts[i]);
  }
  return to_numpy(out);
}

std::optional<uint64_t> find_first(const IndexHandle& index,
                                   const py::object& key, bool null_equals) {
  const KeyBatch batch(index.columns(), key, null_equals, {});
  if (batch.num_rows() != 1) {
    raise(Status::invalid_argument("find_first: expected one key"));
  }
  std::optional<uint64_t> row;
  if (batch.keys().empty()) return row;
  if (!batch.whole()) {
    const LookupAnswer answer = find_answer(index, batch);
    each_range(answer, batch, [&row](const RowRange& range, int64_t) {
      if (!row) row = range.begin;
    });
    return row;
  }
  ask([&] {
    NIMBLE_ASSIGN_OR_RETURN(row,
                            index->find_first(batch.keys().key(0), nullptr));
    return Status::ok();
  });
  return row;
}

// Finds the rows of all keys and reads them. Returns false if the result needs
// several batches, because it has more than `max_rows` rows or too many bytes
// for one array.
Result<bool> read_matches(const IndexHandle& index, const RowReader& reader,
                          const KeyBatch& batch, uint64_t max_rows,
                          std::vector<uint64_t>* numbers, ArrowArray* array) {
  LookupAnswer found;
  NIMBLE_RETURN_IF_ERROR(
      index->find(batch.keys(), batch.whole(), &reader, &found));
  std::optional<ProbeRows> rows = probe_rows(found, max_rows);
  if (!rows) return false;
  for (uint64_t& key : rows->keys) key = batch.row_of(key);
  Column out = reader.make_output();
  const std::vector<uint8_t> known = batch.known_columns(reader);
  NIMBLE_RETURN_IF_ERROR(reader.take_placed(rows->rows, known, 1, &out));
  for (size_t c = 0; c < known.size(); ++c) {
    if (known[c] == 0) continue;
    NIMBLE_RETURN_IF_ERROR(
        batch.append_known(reader, c, rows->keys, &out.children[c]));
  }
  *numbers = std::move(rows->keys);
  Status status = std::move(out).export_array(array);
  if (status.code() == StatusCode::kTooLarge) return false;
  if (!status) return status;
  return true;
}

py::object lookup(const IndexHandle& index, const RowReader& reader,
                  const py::object& keys, bool null_equals,
                  const Impossible& impossible, uint64_t max_rows) {
  index.check_same_file(reader);
  const KeyBatch batch(index.columns(), keys, null_equals, impossible);
  std::vector<uint64_t> numbers;
  ArrowArray array{};
  bool complete = false;
  ask([&] {
    NIMBLE_ASSIGN_OR_RETURN(complete, read_matches(index, reader, batch,
                                                   max_rows, &numbers, &array));
    return Status::ok();
  });
  if (!complete) return py::none();
  const py::tuple capsules = array_capsules(reader.schema(), &array);
  Array<int64_t> out(static_cast<py::ssize_t>(numbers.size()));
  std::copy(numbers.begin(), numbers.end(), out.mutable_data());
  return py::make_tuple(capsules[0], capsules[1], out);
}

// ------------------------------------------------------------------- places

py::array_t<uint64_t> places(const IndexHandle& index, const py::object& keys,
                             bool null_equals) {
  index.check_ordered();
  const KeyBatch batch(index.columns(), keys, null_equals, {});
  std::vector<PlaceRange> found;
  ask([&] { return index->find_places(batch.keys(), &found); });
  std::vector<PlaceRange> all(batch.num_rows());
  for (size_t i = 0; i < found.size(); ++i) all[batch.row_of(i)] = found[i];
  return ranges_to_numpy(all);
}

py::tuple places_of(const IndexHandle& index, const KeyRange& range) {
  PlaceRange found;
  ask([&] {
    NIMBLE_ASSIGN_OR_RETURN(found, index->find_range(range, nullptr));
    return Status::ok();
  });
  return py::make_tuple(found.begin, std::max(found.begin, found.end));
}

// A bound, given as one row of the first key columns. None means no limit.
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

py::tuple range(const IndexHandle& index, const py::object& lower,
                bool lower_inclusive, const py::object& upper,
                bool upper_inclusive, bool by_value) {
  index.check_ordered();
  const Bound low(lower, lower_inclusive), high(upper, upper_inclusive);
  const KeyEncoder& encoder = index->encoder();
  return places_of(
      index,
      unwrap(by_value ? value_range(encoder, low.bound, high.bound)
                      : key_order_range(encoder, low.bound, high.bound)));
}

py::tuple prefix(const IndexHandle& index, const py::object& values,
                 bool starts_with) {
  index.check_ordered();
  const auto batch = ImportedArray::from_python(values);
  return places_of(
      index, unwrap(equal_range(index->encoder(), scalars_of(batch->view()),
                                starts_with)));
}

Array<uint64_t> rows_at(const IndexHandle& index,
                        const Array<uint64_t>& places) {
  index.check_ordered();
  const std::vector<PlaceRange> wanted = ranges_from_numpy(places);
  for (const PlaceRange& p : wanted) {
    if (p.begin <= p.end && p.end <= index.file().num_rows()) continue;
    raise(Status::invalid_argument("the index does not have these places"));
  }
  std::vector<uint64_t> found;
  ask([&] { return index->rows_at(wanted, &found); });
  return to_numpy(found);
}

}  // namespace

void register_index(py::module_& m) {
  const auto no_flags = py::arg("impossible") = py::none();
  const auto nulls = py::arg("null_equals") = false;
  py::class_<IndexHandle, std::shared_ptr<IndexHandle>>(m, "Index")
      .def(py::init([](const FilePtr& file, std::optional<size_t> number) {
             return std::const_pointer_cast<IndexHandle>(
                 IndexHandle::open(file, number));
           }),
           py::arg("file"), py::arg("number") = py::none())
      .def_property_readonly(
          "ordered", [](const IndexHandle& i) { return i->is_ordered(); })
      .def("find", &find, py::arg("keys"), nulls, no_flags)
      .def("rows", &rows, py::arg("keys"), nulls, no_flags)
      .def("count", &count, py::arg("keys"), nulls, no_flags)
      .def("find_first", &find_first, py::arg("key"), nulls)
      .def("lookup", &lookup, py::arg("projection"), py::arg("keys"),
           py::arg("null_equals"), py::arg("impossible"), py::arg("max_rows"))
      .def("candidates", &candidates, py::arg("keys"))
      .def("places", &places, py::arg("keys"), nulls)
      .def("range", &range, py::arg("lower"), py::arg("lower_inclusive"),
           py::arg("upper"), py::arg("upper_inclusive"),
           py::arg("by_value") = false)
      .def("prefix", &prefix, py::arg("values"), py::arg("starts_with") = false)
      .def("rows_at", &rows_at, py::arg("places"));
}

}  // namespace nimble
