// _core.IndexRewriter: copies a file and changes its secondary indexes.
// _core.estimate_index: estimates the size of an index.
#include <pybind11/stl.h>

#include "nimble/bindings/core_file.h"
#include "nimble/bindings/values/errors.h"
#include "nimble/bindings/values/gil.h"
#include "nimble/bindings/write_target.h"
#include "nimble/bindings/writer_options.h"
#include "nimble/maintain/index_estimate.h"
#include "nimble/maintain/index_rewriter.h"

namespace py = pybind11;

namespace nimble {
namespace {

class CoreIndexRewriter {
 public:
  CoreIndexRewriter(const FilePtr& file, const py::object& target,
                    const std::vector<size_t>& drop, const py::dict& options) {
    IndexChange change;
    change.drop = drop;
    change.add = index_specs(options["indexes"]);
    change.options.index_memory_bytes =
        options["index_memory_bytes"].cast<uint64_t>();
    change.options.spill_directory =
        options["spill_directory"].cast<std::string>();
    change.options.key_chunk_rows = options["key_chunk_rows"].cast<uint32_t>();
    change.options.restart_interval =
        options["restart_interval"].cast<uint32_t>();
    WriteTarget to = open_write_target(target);
    change.options.threads = options["threads"].cast<uint32_t>();
    change.options.poll = std::move(to.poll);
    rewriter_ = unwrap(
        IndexRewriter::create(file, std::move(change), std::move(to.file)));
  }

  uint64_t step() {
    const std::shared_ptr<IndexRewriter> rewriter = open();
    Result<uint64_t> rows = uint64_t{0};
    {
      const WithoutGil nogil;
      rows = rewriter->step();
    }
    return unwrap(std::move(rows));
  }
  void finish() {
    std::shared_ptr<IndexRewriter> rewriter = open();
    Status status;
    {
      const WithoutGil nogil;
      status = rewriter->finish();
      rewriter.reset();
    }
    close();
    check(status);
  }
  // Removes the unfinished file, unless finish() succeeded before.
  void close() {
    std::shared_ptr<IndexRewriter> rewriter = std::move(rewriter_);
    const WithoutGil nogil;
    rewriter.reset();
  }

 private:
  // Shared, so that close() on another thread does not free it during a step.
  std::shared_ptr<IndexRewriter> open() const {
    if (rewriter_ == nullptr) raise(Status::invalid_argument("closed"));
    return rewriter_;
  }

  std::shared_ptr<IndexRewriter> rewriter_;
};

// Returns (bytes, distinct keys or rows, bytes of the part that a lookup
// reads).
py::tuple estimate(const FilePtr& file, const py::dict& spec,
                   uint32_t key_chunk_rows, uint32_t restart_interval) {
  py::list one;
  one.append(spec);
  const std::vector<IndexSpec> specs = index_specs(one);
  WriterOptions options;
  options.key_chunk_rows = key_chunk_rows;
  options.restart_interval = restart_interval;
  Result<IndexEstimate> made = IndexEstimate{};
  {
    const WithoutGil nogil;
    made = estimate_index(*file, specs[0], options);
  }
  const IndexEstimate e = unwrap(std::move(made));
  return py::make_tuple(e.size_bytes, e.num_keys, e.part_bytes);
}

}  // namespace

void register_index_rewriter(py::module_& m) {
  m.def("estimate_index", &estimate, py::arg("file"), py::arg("spec"),
        py::arg("key_chunk_rows"), py::arg("restart_interval"));
  py::class_<CoreIndexRewriter>(m, "IndexRewriter")
      .def(py::init<const FilePtr&, const py::object&,
                    const std::vector<size_t>&, const py::dict&>(),
           py::arg("file"), py::arg("target"), py::arg("drop"),
           py::arg("options"))
      .def("step", &CoreIndexRewriter::step)
      .def("finish", &CoreIndexRewriter::finish)
      .def("close", &CoreIndexRewriter::close);
}

}  // namespace nimble
