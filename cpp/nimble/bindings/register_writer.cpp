// _core.Writer: writes batches to a file.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "nimble/bindings/core_file.h"
#include "nimble/bindings/values/errors.h"
#include "nimble/bindings/values/gil.h"
#include "nimble/bindings/write_target.h"
#include "nimble/bindings/writer_options.h"
#include "nimble/write/sorting_writer.h"

namespace py = pybind11;

namespace nimble {
namespace {

class CoreWriter {
 public:
  CoreWriter(const py::object& target, const py::object& schema,
             WriterOptions options, bool sort) {
    const py::object capsule = schema.attr("__arrow_c_schema__")();
    auto* c = static_cast<ArrowSchema*>(
        PyCapsule_GetPointer(capsule.ptr(), "arrow_schema"));
    if (c == nullptr) throw py::error_already_set();
    Field field = unwrap(Field::from_arrow(*c));
    sort = sort && !options.cluster_by.empty();
    if (sort) options = sorting_options(std::move(options));
    WriteTarget to = open_write_target(target);
    options.poll = std::move(to.poll);
    auto writer = unwrap(FileWriter::create(
        std::move(field), std::move(options), std::move(to.file)));
    if (sort) {
      writer_ = std::make_shared<SortingWriter>(std::move(writer));
    } else {
      writer_ = std::move(writer);
    }
  }

  void write(const py::object& batch) {
    const auto imported = ImportedArray::from_python(batch);
    const std::shared_ptr<RowWriter> writer = open();
    Status status;
    {
      const WithoutGil nogil;
      status = writer->append(imported->view());
    }
    check(status);
  }

  py::dict finish() {
    const std::shared_ptr<RowWriter> writer = open();
    Result<WriteSummary> done = WriteSummary{};
    {
      const WithoutGil nogil;
      done = writer->finish();
    }
    const WriteSummary s = unwrap(std::move(done));
    py::dict out;
    out["num_rows"] = s.num_rows;
    out["size_bytes"] = s.size_bytes;
    out["index_bytes"] = s.index_bytes;
    out["index_seconds"] = s.index_seconds;
    out["stripes"] = s.num_stripes;
    out["column_bytes"] = s.column_bytes;
    out["column_encodings"] = s.column_encodings;
    return out;
  }

  // Removes the unfinished file, unless finish() succeeded before.
  void close() {
    std::shared_ptr<RowWriter> writer = std::move(writer_);
    const WithoutGil nogil;
    writer.reset();
  }

 private:
  // Shared, so that close() on another thread does not free it during a write.
  std::shared_ptr<RowWriter> open() const {
    if (writer_ == nullptr) {
      raise(Status::invalid_argument("the writer is closed"));
    }
    return writer_;
  }

  std::shared_ptr<RowWriter> writer_;
};

WriterOptions make_options(const py::dict& d) {
  WriterOptions o;
  const auto effort = d["compression"].cast<std::string>();
  o.effort = effort == "fast"      ? Effort::kFast
             : effort == "compact" ? Effort::kCompact
                                   : Effort::kBalanced;
  o.stripe_rows = d["stripe_rows"].cast<uint64_t>();
  o.stripe_bytes = d["stripe_bytes"].cast<uint64_t>();
  o.group_rows = d["group_rows"].cast<uint64_t>();
  o.group_bytes = d["group_bytes"].cast<uint64_t>();
  o.key_chunk_rows = d["key_chunk_rows"].cast<uint32_t>();
  o.restart_interval = d["restart_interval"].cast<uint32_t>();
  o.cluster_bloom_bits = d["cluster_bloom_bits"].cast<double>();
  o.zone_rows = d["zone_rows"].cast<uint32_t>();
  o.statistics = d["statistics"].cast<bool>();
  o.statistics_columns = d["statistics_columns"].cast<std::vector<uint32_t>>();
  o.sort_memory_bytes = d["sort_memory_bytes"].cast<uint64_t>();
  o.threads = d["threads"].cast<uint32_t>();
  o.unique = d["unique"].cast<bool>();
  o.index_memory_bytes = d["index_memory_bytes"].cast<uint64_t>();
  o.spill_directory = d["spill_directory"].cast<std::string>();
  o.indexes = index_specs(d["indexes"]);
  o.cluster_by = key_columns(d["cluster_by"]);
  o.bloom_columns = d["bloom_columns"].cast<std::vector<std::vector<int>>>();
  o.bloom_bits_per_key = d["bloom_bits_per_key"].cast<double>();
  for (const py::handle pair : d["metadata"]) {
    const auto p = pair.cast<py::tuple>();
    o.metadata.emplace_back(p[0].cast<std::string>(),
                            std::string(p[1].cast<py::bytes>()));
  }
  return o;
}

}  // namespace

std::vector<KeyColumnSpec> key_columns(const py::handle& keys) {
  std::vector<KeyColumnSpec> out;
  for (const py::handle key : keys) {
    const auto t = key.cast<std::tuple<std::vector<int>, bool, bool>>();
    out.push_back({std::get<0>(t), {std::get<1>(t), std::get<2>(t)}});
  }
  return out;
}

std::vector<IndexSpec> index_specs(const py::handle& indexes) {
  std::vector<IndexSpec> out;
  for (const py::handle index : indexes) {
    IndexSpec spec;
    const auto kind = index["kind"].cast<std::string>();
    spec.columns = key_columns(index["columns"]);
    if (kind == "vector") {
      spec.kind = IndexKind::kVector;
      spec.metric = unwrap(metric_of(index["metric"].cast<std::string>()));
      spec.lists = index["lists"].cast<uint32_t>();
      spec.queries = index["queries"].cast<std::vector<float>>();
      using Floats = py::array_t<float, py::array::c_style>;
      const auto known = index["known"].cast<std::pair<Floats, Floats>>();
      spec.known.centroids.assign(known.first.data(),
                                  known.first.data() + known.first.size());
      spec.known.rows.assign(known.second.data(),
                             known.second.data() + known.second.size());
      out.push_back(std::move(spec));
      continue;
    }
    spec.kind = kind == "hash" ? IndexKind::kHash : IndexKind::kSorted;
    spec.load_factor = index["load_factor"].cast<double>();
    spec.bloom_bits = index["bloom_bits"].cast<double>();
    out.push_back(std::move(spec));
  }
  return out;
}

void register_writer(py::module_& m) {
  py::class_<CoreWriter>(m, "Writer")
      .def(py::init([](const py::object& target, const py::object& schema,
                       const py::dict& options, bool sort) {
             return std::make_unique<CoreWriter>(target, schema,
                                                 make_options(options), sort);
           }),
           py::arg("target"), py::arg("schema"), py::arg("options"),
           py::arg("sort"))
      .def("write", &CoreWriter::write, py::arg("batch"))
      .def("finish", &CoreWriter::finish)
      .def("close", &CoreWriter::close);
}

}  // namespace nimble
