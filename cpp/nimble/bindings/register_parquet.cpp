// _core.ParquetFile: reads rows of Parquet files by their numbers.
#include <pybind11/stl.h>

#include "nimble/bindings/core_file.h"
#include "nimble/bindings/values/errors.h"
#include "nimble/bindings/values/gil.h"
#include "nimble/bindings/values/python_file.h"
#include "nimble/bindings/values/python_rows.h"
#include "nimble/io/local_file.h"
#include "nimble/parquet/parquet_file.h"

namespace py = pybind11;

namespace nimble {
namespace {

using parquet::PageCache;
using parquet::PageStats;
using parquet::ParquetFile;

// The cache and the counters that the files of one handle share.
struct ParquetPages {
  explicit ParquetPages(uint64_t cache_bytes)
      : cache(std::make_shared<PageCache>(cache_bytes)),
        stats(std::make_shared<PageStats>()) {}
  std::shared_ptr<PageCache> cache;
  std::shared_ptr<PageStats> stats;
};

ByteSpan span_of(const py::bytes& bytes) {
  return as_bytes(std::string_view(bytes));
}

// Opens a local path, or an object with read_at().
std::shared_ptr<const ReadableFile> open_any(const py::object& file,
                                             const std::string& name,
                                             uint64_t coalesce_gap) {
  if (py::isinstance<py::str>(file)) {
    // The file is not mapped: if a mapped file were truncated, the process
    // would crash.
    return unwrap(LocalFile::open(file.cast<std::string>(), false));
  }
  return open_python_file(file, name, coalesce_gap);
}

// Calls a Python function (codec, bytes, size) -> buffer.
class PythonDecompress {
 public:
  explicit PythonDecompress(py::object function)
      : function_(std::make_shared<Held>(std::move(function))) {}

  Status operator()(parquet::Codec codec, ByteSpan in, uint8_t* out,
                    size_t size) const {
    const MaybeGil gil;
    if (!gil) return Status::io_error("the interpreter shuts down");
    try {
      const py::object found =
          function_->object(static_cast<int>(codec),
                            py::memoryview::from_memory(
                                in.data(), static_cast<py::ssize_t>(in.size())),
                            size);
      if (found.is_none()) {
        return Status::corrupt("Parquet page: " + std::to_string(in.size()) +
                               " bytes cannot be decompressed to " +
                               std::to_string(size));
      }
      const py::buffer_info info = py::buffer(found).request();
      if (static_cast<size_t>(info.size * info.itemsize) != size) {
        return Status::corrupt("Parquet page: decompressed to " +
                               std::to_string(info.size * info.itemsize) +
                               " bytes; expected " + std::to_string(size));
      }
      std::memcpy(out, info.ptr, size);
    } catch (const py::error_already_set& e) {
      return python_failure(e, "Parquet page");
    }
    return Status::ok();
  }

 private:
  struct Held {
    explicit Held(py::object o) : object(std::move(o)) {}
    ~Held() { drop(&object); }
    py::object object;
  };
  std::shared_ptr<Held> function_;
};

std::shared_ptr<const ParquetFile> open_parquet(
    const py::object& file, const std::string& name, uint64_t coalesce_gap,
    const py::bytes& footer, const py::bytes& page_table,
    const py::object& schema, const ParquetPages& pages,
    const py::object& decompress) {
  const py::object capsule = schema.attr("__arrow_c_schema__")();
  const auto* c = static_cast<const ArrowSchema*>(
      PyCapsule_GetPointer(capsule.ptr(), "arrow_schema"));
  if (c == nullptr) throw py::error_already_set();
  return unwrap(ParquetFile::open(open_any(file, name, coalesce_gap),
                                  span_of(footer), span_of(page_table),
                                  unwrap(Field::from_arrow(*c)), pages.cache,
                                  pages.stats, PythonDecompress(decompress)));
}

// Returns (footer, page table), or None if another reader must read the file.
py::object describe_parquet(const py::object& file, const std::string& name,
                            uint64_t coalesce_gap) {
  const auto opened = open_any(file, name, coalesce_gap);
  using Described = std::pair<std::vector<uint8_t>, std::vector<uint8_t>>;
  const auto found = without_gil([&]() -> Result<Described> {
    NIMBLE_ASSIGN_OR_RETURN(auto footer, parquet::read_footer(*opened));
    auto metadata = parquet::Metadata::parse(footer);
    if (!metadata) {
      return std::move(metadata).error().with_context(opened->name());
    }
    auto table = parquet::make_page_table(*opened, *metadata);
    if (!table) return std::move(table).error().with_context(opened->name());
    return Described(std::move(footer), std::move(table).value());
  });
  if (!found && found.error().code() == StatusCode::kUnsupported) {
    return py::none();
  }
  if (!found) raise(found.error());
  const auto bytes = [](const std::vector<uint8_t>& b) {
    return py::bytes(reinterpret_cast<const char*>(b.data()), b.size());
  };
  return py::make_tuple(bytes(found->first), bytes(found->second));
}

py::object read_rows(const ParquetFile& file,
                     const std::vector<uint32_t>& columns,
                     const py::array_t<uint64_t, py::array::c_style>& rows) {
  const std::span<const uint64_t> wanted(rows.data(),
                                         static_cast<size_t>(rows.size()));
  auto found = without_gil([&] { return file.read(columns, wanted); });
  if (!found && found.error().code() == StatusCode::kUnsupported) {
    return py::none();
  }
  if (!found) raise(found.error());
  return array_capsules(std::move(*found->column));
}

// Reads columns of one row as a dict.
class ParquetRows {
 public:
  // Returns None if pyarrow must convert the values of a column.
  static py::object create(std::shared_ptr<const ParquetFile> file,
                           std::vector<uint32_t> columns) {
    auto out = std::make_unique<ParquetRows>();
    for (const uint32_t c : columns) {
      if (c >= file->schema().children.size()) {
        raise(Status::invalid_argument("no column " + std::to_string(c)));
      }
      const Field& field = file->schema().children[c];
      auto maker = RowMaker::create(field);
      if (!maker) return py::none();
      py::str name(field.name);
      PyUnicode_InternInPlace(&name.ptr());
      out->blank_[name] = py::none();
      out->columns_.push_back({std::move(name), std::move(*maker)});
    }
    out->file_ = std::move(file);
    out->numbers_ = std::move(columns);
    return py::cast(std::move(out));
  }

  // Returns None if another reader must read the row.
  py::object read(uint64_t row) const {
    auto found = without_gil([&] { return file_->read(numbers_, {&row, 1}); });
    if (!found && found.error().code() == StatusCode::kUnsupported) {
      return py::none();
    }
    if (!found) raise(found.error());
    // A copy has the right size and all names.
    auto out = py::reinterpret_steal<py::object>(PyDict_Copy(blank_.ptr()));
    if (!out) throw py::error_already_set();
    for (size_t i = 0; i < columns_.size(); ++i) {
      const auto value = py::reinterpret_steal<py::object>(
          columns_[i].maker.make(found->column->children[i], 0));
      if (!value ||
          PyDict_SetItem(out.ptr(), columns_[i].name.ptr(), value.ptr()) != 0) {
        throw py::error_already_set();
      }
    }
    return out;
  }

 private:
  struct OneColumn {
    py::str name;
    RowMaker maker;
  };

  std::shared_ptr<const ParquetFile> file_;
  std::vector<uint32_t> numbers_;
  std::vector<OneColumn> columns_;
  py::dict blank_;  // all names
};

}  // namespace

void register_parquet(py::module_& m) {
  py::class_<ParquetPages>(m, "ParquetPages")
      .def(py::init<uint64_t>(), py::arg("cache_bytes"))
      .def_property_readonly(
          "used_bytes",
          [](const ParquetPages& p) { return p.cache->used_bytes(); })
      .def_property_readonly("stats",
                             [](const ParquetPages& p) {
                               return py::make_tuple(p.stats->reads.load(),
                                                     p.stats->bytes.load(),
                                                     p.stats->rounds.load(),
                                                     p.stats->pages.load());
                             })
      .def("reset_stats", [](const ParquetPages& p) {
        p.stats->reads = p.stats->bytes = 0;
        p.stats->rounds = p.stats->pages = 0;
      });
  m.def("describe_parquet", &describe_parquet, py::arg("file"), py::arg("name"),
        py::arg("coalesce_gap"));
  py::class_<ParquetFile, std::shared_ptr<ParquetFile>>(m, "ParquetFile")
      .def(
          py::init([](const py::object& file, const std::string& name,
                      uint64_t coalesce_gap, const py::bytes& footer,
                      const py::bytes& page_table, const py::object& schema,
                      const ParquetPages& pages, const py::object& decompress) {
            return std::const_pointer_cast<ParquetFile>(
                open_parquet(file, name, coalesce_gap, footer, page_table,
                             schema, pages, decompress));
          }),
          py::arg("file"), py::arg("name"), py::arg("coalesce_gap"),
          py::arg("footer"), py::arg("page_table"), py::arg("schema"),
          py::arg("pages"), py::arg("decompress"))
      .def_property_readonly("num_rows", &ParquetFile::num_rows)
      .def("unsupported", &ParquetFile::unsupported, py::arg("column"))
      .def("read", &read_rows, py::arg("columns"), py::arg("rows"))
      .def(
          "rows",
          [](std::shared_ptr<ParquetFile> file, std::vector<uint32_t> columns) {
            return ParquetRows::create(std::move(file), std::move(columns));
          },
          py::arg("columns"));
  py::class_<ParquetRows>(m, "ParquetRows")
      .def("read", &ParquetRows::read, py::arg("row"));
}

}  // namespace nimble
