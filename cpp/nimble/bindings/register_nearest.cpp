// _core.nearest() finds the nearest rows in files. _core.VectorIndex is an open
// index.
#include "nimble/bindings/register_nearest.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "nimble/bindings/core_file.h"
#include "nimble/bindings/values/errors.h"
#include "nimble/bindings/values/gil.h"
#include "nimble/scan/nearest/nearest.h"

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

py::dict to_dict(const NearestStats& s) {
  py::dict out;
  out["files_by_lists"] = s.files_by_lists;
  out["files_compared"] = s.files_compared;
  out["lists"] = s.lists;
  out["lists_probed"] = s.lists_probed;
  out["rows_allowed"] = s.rows_allowed;
  out["rows_scored"] = s.rows_scored;
  out["rows_compared"] = s.rows_compared;
  return out;
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
  if (queries.ndim() != 2 || queries.shape(1) == 0 ||
      queries.shape(1) > static_cast<py::ssize_t>(kMaxVectorDimensions)) {
    raise(Status::invalid_argument("queries: expected a matrix"));
  }
  std::vector<NearestPart> parts;
  for (const auto& [scan, index, deleted] : given) {
    if (scan->output->schema().children.size() != 1 ||
        scan->output->is_nested(0)) {
      raise(Status::invalid_argument("nearest: expected one column"));
    }
    if (index != nullptr && (&index->index->file() != &scan->output->file() ||
                             index->index->root().metric != options.metric)) {
      raise(
          Status::invalid_argument("nearest: an index of another file or "
                                   "metric"));
    }
    parts.push_back(
        {*scan, index == nullptr ? nullptr : index->index.get(), deleted});
  }
  const std::span<const double> values(queries.data(),
                                       static_cast<size_t>(queries.size()));
  const auto dimensions = static_cast<uint32_t>(queries.shape(1));
  NearestStats stats;
  const auto hits = unwrap(without_gil([&] {
    return find_nearest(parts, values, dimensions, options, &stats);
  }));
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
}

}  // namespace nimble
