// _core.nearest() finds the nearest rows in files. _core.NearestReader also
// reads them, in one call. _core.VectorIndex is an open index.
#include "nimble/bindings/register_nearest.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "nimble/bindings/core_file.h"
#include "nimble/bindings/values/arrow_bridge.h"
#include "nimble/bindings/values/errors.h"
#include "nimble/bindings/values/gil.h"
#include "nimble/scan/nearest/nearest.h"
#include "nimble/stripe/file_rows.h"

namespace py = pybind11;

namespace nimble {
namespace {

// An open index. It keeps its file open.
struct OpenVectorIndex {
  FilePtr file;
  std::unique_ptr<const VectorIndex> index;
};

std::unique_ptr<OpenVectorIndex> open(const FilePtr& file, size_t number) {
  if (number >= file->footer().vectors.size()) {
    raise(
        Status::invalid_argument("no vector index " + std::to_string(number)));
  }
  auto index = without_gil([&] { return VectorIndex::open(*file, number); });
  auto out = std::make_unique<OpenVectorIndex>();
  out->file = file;
  out->index = unwrap(std::move(index));
  return out;
}

const char* vector_metric(const FilePtr& file, size_t number) {
  if (number >= file->footer().vectors.size()) {
    raise(
        Status::invalid_argument("no vector index " + std::to_string(number)));
  }
  return metric_name(unwrap(
      without_gil([&] { return VectorIndex::read_metric(*file, number); })));
}

// Returns (path, rows in lists, bytes) for each vector index of the footer.
py::list vector_indexes(const FileReader& file) {
  py::list out;
  for (const SecondaryIndexRef& ref : file.footer().vectors) {
    out.append(
        py::make_tuple(ref.columns[0].path, ref.num_keys, ref.size_bytes));
  }
  return out;
}

using Part =
    std::tuple<const ScanPart*, const OpenVectorIndex*, const RowBitmap*>;
using Queries = py::array_t<double, py::array::c_style>;

template <class T>
py::array_t<T> to_numpy(const std::vector<T>& values) {
  return py::array_t<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

// Returns a matrix of centroids and the number of rows of each.
py::tuple known_centroids(const OpenVectorIndex& opened) {
  const KnownCentroids known = opened.index->known_centroids();
  const auto lists = static_cast<py::ssize_t>(known.rows.size());
  const auto padded = static_cast<py::ssize_t>(opened.index->root().padded);
  return py::make_tuple(
      py::array_t<float>({lists, padded}, known.centroids.data()),
      to_numpy(known.rows));
}

py::dict to_dict(const NearestStats& s) {
  py::dict out;
  out["files_by_lists"] = s.files_by_lists;
  out["files_below_recall"] = s.files_below_recall;
  out["files_compared"] = s.files_compared;
  out["lists"] = s.lists;
  out["lists_probed"] = s.lists_probed;
  out["rows_allowed"] = s.rows_allowed;
  out["rows_scored"] = s.rows_scored;
  out["rows_compared"] = s.rows_compared;
  return out;
}

Result<std::unique_ptr<const NearestSearch>> prepare(
    const std::vector<Part>& given, VectorMetric metric, uint64_t dimensions) {
  if (dimensions == 0 || dimensions > kMaxVectorDimensions) {
    return Status::invalid_argument(
        "nearest: vectors have " + std::to_string(dimensions) +
        " numbers; expected 1 to " + std::to_string(kMaxVectorDimensions));
  }
  std::vector<NearestPart> parts;
  for (const auto& [scan, index, deleted] : given) {
    if (scan->output->schema().children.size() != 1 ||
        scan->output->is_nested(0)) {
      return Status::invalid_argument("nearest: expected one column");
    }
    if (index != nullptr && (&index->index->file() != &scan->output->file() ||
                             index->index->root().metric != metric)) {
      return Status::invalid_argument(
          "nearest: the index belongs to another file or has another metric");
    }
    parts.push_back(
        {*scan, index == nullptr ? nullptr : index->index.get(), deleted});
  }
  return without_gil([&] {
    return NearestSearch::prepare(std::move(parts),
                                  static_cast<uint32_t>(dimensions));
  });
}

// Returns rows, their parts, queries and distances, and the statistics of the
// search.
py::tuple nearest(const std::vector<Part>& given, const Queries& queries,
                  const std::string& metric, uint64_t k, double recall,
                  bool exact, uint32_t threads) {
  NearestOptions options;
  options.metric = unwrap(metric_of(metric));
  options.k = k;
  options.recall = recall;
  options.exact = exact;
  options.threads = threads_or_default(threads);
  if (queries.ndim() != 2) {
    raise(Status::invalid_argument("queries: expected a matrix"));
  }
  const auto search = unwrap(
      prepare(given, options.metric, static_cast<uint64_t>(queries.shape(1))));
  const std::span<const double> values(queries.data(),
                                       static_cast<size_t>(queries.size()));
  NearestStats stats;
  const auto hits =
      unwrap(without_gil([&] { return search->run(values, options, &stats); }));
  std::vector<uint64_t> rows;
  std::vector<int64_t> files, numbers;
  std::vector<float> distances;
  for (size_t q = 0; q < hits.size(); ++q) {
    for (const NearestHit& hit : hits[q]) {
      rows.push_back(hit.row);
      files.push_back(hit.part);
      numbers.push_back(static_cast<int64_t>(q));
      distances.push_back(hit.distance);
    }
  }
  return py::make_tuple(to_numpy(rows), to_numpy(files), to_numpy(numbers),
                        to_numpy(distances), to_dict(stats));
}

// Stores a vector of `count` finite numbers. Returns false if `query` is
// something else.
bool to_query(const py::handle& query, uint32_t count,
              std::vector<double>* out) {
  out->resize(count);
  if (PyList_CheckExact(query.ptr())) {
    if (PyList_GET_SIZE(query.ptr()) != py::ssize_t{count}) return false;
    for (uint32_t i = 0; i < count; ++i) {
      PyObject* const item = PyList_GET_ITEM(query.ptr(), i);
      if (!PyFloat_CheckExact(item)) return false;
      (*out)[i] = PyFloat_AS_DOUBLE(item);
    }
  } else {
    if (!py::isinstance<py::array>(query)) return false;
    const auto array = py::reinterpret_borrow<py::array>(query);
    if (array.ndim() != 1 || array.shape(0) != py::ssize_t{count}) return false;
    const auto* from = static_cast<const uint8_t*>(array.data());
    const py::ssize_t step = array.strides(0);
    const auto copy = [&]<class T>(T) {
      for (uint32_t i = 0; i < count; ++i, from += step) {
        (*out)[i] = double{load<T>(from)};
      }
    };
    if (py::isinstance<py::array_t<float>>(array)) {
      copy(float{});
    } else if (py::isinstance<py::array_t<double>>(array)) {
      copy(double{});
    } else {
      return false;
    }
  }
  return std::all_of(out->begin(), out->end(),
                     [](double x) { return std::isfinite(x); });
}

// Finds the nearest rows of all files, or of all but deleted rows, and reads
// them.
class NearestReader {
 public:
  // `rows` reads the columns of the result, for each part.
  NearestReader(const py::list& parts,
                std::vector<std::shared_ptr<RowReader>> rows,
                const std::string& metric, uint32_t dimensions, bool exact)
      : rows_(std::move(rows)), kept_(parts) {
    options_.metric = unwrap(metric_of(metric));
    options_.exact = exact;
    options_.threads = threads_or_default(0);
    search_ = unwrap(prepare(py::cast<std::vector<Part>>(parts),
                             options_.metric, dimensions));
    for (const auto& reader : rows_) readers_.push_back(reader.get());
    if (rows_.empty() || rows_.size() != search_->parts().size()) {
      raise(Status::invalid_argument(
          "nearest: expected one reader of columns for each part"));
    }
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (&rows_[i]->file() != &search_->parts()[i].scan.output->file()) {
        raise(Status::invalid_argument(
            "nearest: the columns belong to another file"));
      }
    }
    result_ = rows_[0]->schema();
    Field& distance = result_.children.emplace_back();
    distance.name = "_distance";
    distance.format = "f";
    check(distance.resolve(distance.name));
    const py::module_ arrow = py::module_::import("pyarrow");
    schema_ = arrow.attr("Schema").attr("_import_from_c_capsule")(
        schema_capsule(result_));
    import_batch_ = arrow.attr("RecordBatch").attr("_import_from_c");
    make_table_ = arrow.attr("Table").attr("from_batches");
  }

  // Whether rows of all parts can be read to one table.
  bool can_read() const { return have_one_form(readers_); }
  size_t num_parts() const { return rows_.size(); }
  // Whether the only part has the file of `reader`.
  bool reads(const RowReader& reader) const {
    return rows_.size() == 1 && &rows_[0]->file() == &reader.file();
  }
  // Returns the rows as a pyarrow.Table, or NotImplemented for arguments that
  // rows/nearest.py must convert or refuse. If there is only one part, `within`
  // may limit the rows: (begin, end), or a scan of the file.
  py::object search(const py::handle& query, const py::handle& k,
                    const py::handle& recall, const py::handle& within) const {
    const auto not_implemented =
        py::reinterpret_borrow<py::object>(Py_NotImplemented);
    NearestOptions options = options_;
    std::vector<double> values;
    if (!PyLong_CheckExact(k.ptr()) || !PyFloat_CheckExact(recall.ptr()) ||
        !to_query(query, search_->dimensions(), &values)) {
      return not_implemented;
    }
    int overflow = 0;
    const long long most = PyLong_AsLongLongAndOverflow(k.ptr(), &overflow);
    options.recall = PyFloat_AS_DOUBLE(recall.ptr());
    const bool is_zero = std::all_of(values.begin(), values.end(),
                                     [](double x) { return x == 0; });
    if (overflow != 0 || most < 1 || most > kMostHits ||
        !(options.recall > 0 && options.recall < 1) ||
        (is_zero && options.metric == VectorMetric::kCosine)) {
      return not_implemented;
    }
    options.k = static_cast<uint64_t>(most);
    std::vector<NearestPart> limited;
    if (!within.is_none()) {
      std::optional<NearestPart> part = part_within(within);
      if (!part) return not_implemented;
      limited.push_back(std::move(*part));
    }
    ArrowArray array{};
    const Status status = without_gil(
        [&] { return find_and_read(values, options, limited, &array); });
    if (status.code() == StatusCode::kTooLarge) return not_implemented;
    check(status);
    return table_of(&array);
  }

 private:
  static constexpr long long kMostHits = 10000;

  // Returns nullopt for a scan of another opening of the file.
  std::optional<NearestPart> part_within(const py::handle& within) const {
    if (rows_.size() != 1) {
      raise(Status::invalid_argument(
          "nearest: rows can be limited in a search of one file only"));
    }
    NearestPart out = search_->parts()[0];
    const OpenFile& file = out.scan.output->file();
    if (py::isinstance<ScanPart>(within)) {
      const auto& given = within.cast<const ScanPart&>();
      if (&given.output->file() != &file) return std::nullopt;
      const std::shared_ptr<const RowReader> output = out.scan.output;
      out.scan = given;
      out.scan.output = output;
      return out;
    }
    const auto [begin, end] = within.cast<std::pair<uint64_t, uint64_t>>();
    if (begin > end || end > file.num_rows()) {
      raise(Status::invalid_argument("nearest: rows outside of the file"));
    }
    out.scan.ranges = {{begin, end}};
    return out;
  }

  // Searches `limited` instead of all rows, if there is such a part.
  Status find_and_read(std::span<const double> query,
                       const NearestOptions& options,
                       const std::vector<NearestPart>& limited,
                       ArrowArray* array) const {
    NearestStats stats;
    std::unique_ptr<const NearestSearch> narrow;
    if (!limited.empty()) {
      NIMBLE_ASSIGN_OR_RETURN(
          narrow, NearestSearch::prepare(limited, search_->dimensions()));
    }
    NIMBLE_ASSIGN_OR_RETURN(
        const NearestHits hits,
        (narrow ? narrow : search_)->run(query, options, &stats));
    std::vector<uint64_t> numbers;
    std::vector<int64_t> files;
    Column out(result_, /*wide=*/false);
    Column& distances = out.children.back();
    uint8_t* to = distances.extend_values(hits[0].size());
    for (const NearestHit& hit : hits[0]) {
      numbers.push_back(hit.row);
      files.push_back(hit.part);
      std::memcpy(to, &hit.distance, sizeof hit.distance);
      to += sizeof hit.distance;
    }
    distances.add_rows(numbers.size());
    Column read = rows_[0]->make_output();
    NIMBLE_RETURN_IF_ERROR(rows_.size() == 1
                               ? rows_[0]->take(numbers, options.threads, &read)
                               : take_file_rows(readers_, {files, numbers},
                                                options.threads, &read));
    for (size_t i = 0; i < read.children.size(); ++i) {
      out.children[i] = std::move(read.children[i]);
    }
    out.add_rows(numbers.size());
    return std::move(out).export_array(array);
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

  std::vector<std::shared_ptr<RowReader>> rows_;
  std::vector<const RowReader*> readers_;
  std::unique_ptr<const NearestSearch> search_;
  NearestOptions options_;
  Field result_;
  py::list kept_;  // the owners of the parts' indexes
  py::object schema_, import_batch_, make_table_;
};

}  // namespace

void register_nearest(py::module_& m) {
  py::class_<OpenVectorIndex>(m, "VectorIndex")
      .def(py::init(&open), py::arg("file"), py::arg("number"))
      .def_property_readonly("metric",
                             [](const OpenVectorIndex& i) {
                               return metric_name(i.index->root().metric);
                             })
      .def_property_readonly(
          "num_lists",
          [](const OpenVectorIndex& i) { return i.index->root().num_lists; })
      .def_property_readonly(
          "num_rows",
          [](const OpenVectorIndex& i) { return i.index->root().num_rows; })
      .def_property_readonly(
          "left_out",
          [](const OpenVectorIndex& i) { return i.index->root().left_out; })
      .def("known_centroids", &known_centroids)
      .def(
          "rows_needed",
          [](const OpenVectorIndex& i, double recall, uint64_t k) {
            return i.index->rows_needed(recall, k);
          },
          py::arg("recall"), py::arg("k"));
  m.def("vector_indexes", &vector_indexes, py::arg("file"));
  m.def("vector_metric", &vector_metric, py::arg("file"), py::arg("number"));
  m.def("nearest", &nearest, py::arg("parts"), py::arg("queries"),
        py::arg("metric"), py::arg("k"), py::arg("recall"), py::arg("exact"),
        py::arg("threads"));
  py::class_<NearestReader>(m, "NearestReader")
      .def(py::init<const py::list&, std::vector<std::shared_ptr<RowReader>>,
                    const std::string&, uint32_t, bool>(),
           py::arg("parts"), py::arg("projections"), py::arg("metric"),
           py::arg("dimensions"), py::arg("exact"))
      .def_property_readonly("can_read", &NearestReader::can_read)
      .def_property_readonly("num_parts", &NearestReader::num_parts)
      .def("reads", &NearestReader::reads, py::arg("projection"))
      .def("search", &NearestReader::search, py::arg("query"), py::arg("k"),
           py::arg("recall"), py::arg("within"));
}

}  // namespace nimble
