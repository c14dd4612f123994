// _core.File: opens files and reads their footers.
#include <pybind11/stl.h>

#include "nimble/bindings/core_file.h"
#include "nimble/bindings/values/errors.h"
#include "nimble/bindings/values/gil.h"
#include "nimble/bindings/values/python_file.h"
#include "nimble/format/constants.h"
#include "nimble/io/local_file.h"

namespace py = pybind11;

namespace nimble {
namespace {

std::shared_ptr<const FileReader> open_file(
    std::shared_ptr<const ReadableFile> file, uint64_t cache_bytes) {
  ReaderOptions options;
  options.cache_bytes = cache_bytes;
  return unwrap(
      without_gil([&] { return FileReader::open(std::move(file), options); }));
}

std::shared_ptr<const FileReader> open_path(const std::string& path, bool map,
                                            uint64_t cache_bytes) {
  auto file = unwrap(LocalFile::open(path, map));
  return open_file(std::shared_ptr<const ReadableFile>(std::move(file)),
                   cache_bytes);
}

py::dict stats_of(const FileReader& f) {
  const ReadStats& s = *f.stats();
  const uint64_t touches = s.touches.touches();
  py::dict out;
  out["metadata_reads"] = s.open_reads.load();
  out["index_reads"] = s.index_reads.load();
  out["data_reads"] = s.data_reads.load() + touches;
  out["reads"] = s.open_reads.load() + s.index_reads.load() +
                 s.data_reads.load() + touches;
  out["bytes_read"] = s.open_bytes.load() + s.index_bytes.load() +
                      s.data_bytes.load() + s.touches.bytes();
  out["rounds"] = s.rounds.load();
  return out;
}

py::list key_columns_of(const FileReader& f) {
  return f.footer().cluster ? sort_keys_of(f.footer().cluster->columns)
                            : py::list();
}

// Returns (kind, columns, keys, bytes, has a Bloom filter) for each secondary
// index.
py::list indexes_of(const FileReader& f) {
  py::list out;
  for (const SecondaryIndexRef& i : f.footer().indexes) {
    out.append(py::make_tuple(i.kind == IndexKind::kHash ? "hash" : "sorted",
                              sort_keys_of(i.columns), i.num_keys, i.size_bytes,
                              i.has_bloom));
  }
  return out;
}

py::list metadata_of(const FileReader& f) {
  py::list out;
  for (const auto& [key, value] : f.footer().metadata) {
    out.append(py::make_tuple(key, py::bytes(value)));
  }
  return out;
}

}  // namespace

py::list sort_keys_of(const std::vector<KeyColumnSpec>& columns) {
  py::list out;
  for (const KeyColumnSpec& c : columns) {
    out.append(py::make_tuple(py::tuple(py::cast(c.path)), c.order.descending,
                              c.order.nulls_first));
  }
  return out;
}

void register_file(py::module_& m) {
  m.def("open_path", &open_path, py::arg("path"), py::arg("mmap"),
        py::arg("cache_bytes"));
  m.def(
      "open_buffer",
      [](const py::object& buffer, uint64_t cache_bytes) {
        return open_file(open_python_buffer(buffer), cache_bytes);
      },
      py::arg("buffer"), py::arg("cache_bytes"));
  m.def(
      "open_python",
      [](const py::object& file, std::string name, uint64_t coalesce_gap,
         uint64_t cache_bytes) {
        return open_file(open_python_file(file, std::move(name), coalesce_gap),
                         cache_bytes);
      },
      py::arg("file"), py::arg("name"), py::arg("coalesce_gap"),
      py::arg("cache_bytes"));
  py::class_<FileReader, std::shared_ptr<FileReader>>(m, "File")
      .def_property_readonly("num_rows", &FileReader::num_rows)
      .def_property_readonly(
          "size_bytes", [](const FileReader& f) { return f.file().size(); })
      .def_property_readonly(
          "name", [](const FileReader& f) { return f.file().name(); })
      .def_property_readonly("version",
                             [](const FileReader& f) {
                               return py::make_tuple(f.postscript().major,
                                                     f.postscript().minor);
                             })
      .def_property_readonly(
          "identity",
          [](const FileReader& f) { return f.postscript().footer_checksum; })
      .def_property_readonly(
          "writer", [](const FileReader& f) { return f.footer().writer; })
      .def_property_readonly(
          "is_mapped",
          [](const FileReader& f) { return f.file().mapped() != nullptr; })
      .def_property_readonly("metadata", &metadata_of)
      .def_property_readonly("key_columns", &key_columns_of)
      .def_property_readonly("unique",
                             [](const FileReader& f) {
                               return f.footer().cluster &&
                                      f.footer().cluster->unique;
                             })
      .def_property_readonly(
          "has_column_blooms",
          [](const FileReader& f) {
            for (const auto& s : f.footer().optional_sections) {
              if (s.name == kColumnBloomSection) return true;
            }
            return false;
          })
      .def_property_readonly("has_bloom",
                             [](const FileReader& f) {
                               return f.footer().cluster &&
                                      f.footer().cluster->bloom.size > 0;
                             })
      .def_property_readonly(
          "index_bytes",
          [](const FileReader& f) { return f.footer().index_bytes; })
      .def_property_readonly("indexes", &indexes_of)
      .def_property_readonly("stats", &stats_of)
      .def("reset_stats", [](const FileReader& f) { f.stats()->reset(); })
      .def_property_readonly(
          "memory_bytes",
          [](const FileReader& f) {
            return without_gil([&] { return f.budget()->used(); });
          })
      .def("__arrow_c_schema__", [](const FileReader& f) {
        return schema_capsule(f.footer().schema);
      });
}

}  // namespace nimble
