// Many keys: to row ranges, and to a table of the rows that have them.
#include <pybind11/stl.h>

#include "nimble/bindings/core_file.h"
#include "nimble/bindings/errors.h"
#include "nimble/bindings/gil.h"
#include "nimble/lookup/probe_rows.h"

namespace py = pybind11;

namespace nimble {

ProbeKeys::ProbeKeys(const FileReader& file, const py::object& batch,
                     bool null_equals)
    : file_(file), batch_(ImportedArray::from_python(batch)) {
  if (file.encoder() == nullptr) {
    raise(Status::not_found(file.file().name() + " has no cluster key"));
  }
  const ArrayView& view = batch_->view();
  const size_t n = batch_->field().children.size();
  std::vector<KeyColumnSpec> specs;
  for (size_t i = 0; i < n; ++i) {
    specs.push_back(
        {{static_cast<int>(i)}, file.footer().cluster->columns[i].order});
  }
  const KeyEncoder encoder = unwrap(KeyEncoder::create(batch_->field(), specs));
  check(encoder.encode(view, 0, view.length(), &keys_));
  whole_ = n == file.footer().cluster->columns.size();
  for (const ArrayView& c : view.children()) {
    if (null_equals || !c.may_have_nulls()) continue;
    has_null_.resize(keys_.size());
    for (size_t i = 0; i < keys_.size(); ++i) {
      has_null_[i] |= !c.is_valid(view.child_row(static_cast<int64_t>(i)));
    }
  }
}

Result<LookupAnswer> ProbeKeys::find(const RowReader* wanted) const {
  NIMBLE_ASSIGN_OR_RETURN(LookupAnswer found,
                          find_keys(file_.cluster(), keys_, whole_, wanted));
  for (size_t i = 0; i < has_null_.size(); ++i) {
    if (has_null_[i] != 0) found.ranges[i] = RowRange{};
  }
  return found;
}

size_t ProbeKeys::key_column(const RowReader& reader, size_t column) const {
  const std::vector<Field>& probes = batch_->field().children;
  const Field& wanted = reader.schema().children[column];
  const auto& key = file_.footer().cluster->columns;
  for (size_t i = 0; i < probes.size(); ++i) {
    if (key[i].path.size() != 1 || reader.is_nested(column)) continue;
    const auto top = static_cast<size_t>(key[i].path[0]);
    // Keys of floats are equal where values are not the same bits.
    if (file_.plan().node(0).children[top] == reader.node(column) &&
        (wanted.layout == Layout::kFixed || wanted.layout == Layout::kBytes) &&
        wanted.logical != Logical::kFloat &&
        probes[i].layout == wanted.layout &&
        probes[i].format == wanted.format) {
      return i;
    }
  }
  return probes.size();
}

std::vector<uint8_t> ProbeKeys::known_columns(const RowReader& reader) const {
  std::vector<uint8_t> known;
  for (size_t c = 0; c < reader.schema().children.size(); ++c) {
    known.push_back(key_column(reader, c) < batch_->field().children.size());
  }
  return known;
}

Status ProbeKeys::append_known(const RowReader& reader, size_t column,
                               const std::vector<uint64_t>& probes,
                               Column* out) const {
  const ArrayView& view = batch_->view();
  const ArrayView& values = view.children()[key_column(reader, column)];
  Column all(out->field(), false);
  NIMBLE_RETURN_IF_ERROR(
      all.append(values, view.child_row(0), view.length(), out->field().name));
  out->append_rows(all, probes.data(), probes.size());
  return Status::ok();
}

namespace {

using Flags = py::array_t<bool, py::array::c_style>;

py::array_t<uint64_t> probe_keys(const FileReader& file,
                                 const py::object& batch, bool null_equals,
                                 bool places) {
  ProbeKeys probes(file, batch, null_equals);
  if (places) probes.find_places();
  Result<LookupAnswer> found = LookupAnswer{};
  {
    const WithoutGil nogil;
    found = probes.find();
  }
  return ranges_to_numpy(unwrap(std::move(found)).ranges);
}

// Finds the rows of all probes but the impossible ones and reads them. False
// where the result is to be made in pieces: more than `max_rows`.
Result<bool> read_matches(const RowReader& reader, const ProbeKeys& probes,
                          const std::vector<uint64_t>& impossible,
                          uint64_t max_rows, std::vector<uint64_t>* answered,
                          Column* out) {
  NIMBLE_ASSIGN_OR_RETURN(LookupAnswer found, probes.find(&reader));
  for (const uint64_t i : impossible) found.ranges[i] = RowRange{};
  std::optional<ProbeRows> rows = probe_rows(found, max_rows);
  if (!rows) return false;
  const std::vector<uint8_t> known = probes.known_columns(reader);
  NIMBLE_RETURN_IF_ERROR(reader.take_placed(rows->rows, known, 1, out));
  for (size_t c = 0; c < known.size(); ++c) {
    if (known[c] == 0) continue;
    NIMBLE_RETURN_IF_ERROR(
        probes.append_known(reader, c, rows->keys, &out->children[c]));
  }
  *answered = std::move(rows->keys);
  return true;
}

// (schema, array, the probe that every row answers), or None where the result
// is too large for one batch.
py::object lookup_batch(const RowReader& reader, const py::object& batch,
                        bool null_equals,
                        const std::optional<Flags>& impossible,
                        uint64_t max_rows) {
  const ProbeKeys probes(*file_of(reader), batch, null_equals);
  std::vector<uint64_t> left_out;
  if (impossible) {
    for (py::ssize_t i = 0; i < impossible->size(); ++i) {
      if (impossible->at(i)) left_out.push_back(static_cast<uint64_t>(i));
    }
  }
  Column out = reader.make_output();
  std::vector<uint64_t> answered;
  Result<bool> read = false;
  {
    const WithoutGil nogil;
    read = read_matches(reader, probes, left_out, max_rows, &answered, &out);
  }
  if (!unwrap(std::move(read))) return py::none();
  py::array_t<int64_t> numbers(static_cast<py::ssize_t>(answered.size()));
  std::copy(answered.begin(), answered.end(), numbers.mutable_data());
  const py::tuple capsules = array_capsules(std::move(out));
  return py::make_tuple(capsules[0], capsules[1], numbers);
}

}  // namespace

void register_key_batch(py::module_& m) {
  m.def("find_keys", &probe_keys, py::arg("file"), py::arg("batch"),
        py::arg("null_equals"), py::arg("places") = false);
  m.def("lookup_batch", &lookup_batch, py::arg("projection"), py::arg("batch"),
        py::arg("null_equals"), py::arg("impossible"), py::arg("max_rows"));
}

}  // namespace nimble
