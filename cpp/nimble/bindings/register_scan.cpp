// _core.scan() returns the rows of files that pass filters, _core.count() their
// number.
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <mutex>

#include "nimble/bindings/core_file.h"
#include "nimble/bindings/values/errors.h"
#include "nimble/bindings/values/gil.h"
#include "nimble/scan/scan.h"

namespace py = pybind11;

namespace nimble {
namespace {

// Calls a Python function (record batch) -> boolean array.
class PythonTest {
 public:
  explicit PythonTest(py::object function)
      : function_(std::move(function)),
        import_batch_(py::module_::import("pyarrow")
                          .attr("RecordBatch")
                          .attr("_import_from_c_capsule")) {}
  ~PythonTest() {
    drop(&function_);
    drop(&import_batch_);
  }
  PythonTest(const PythonTest&) = delete;

  Status operator()(const std::shared_ptr<const Column>& inputs,
                    std::span<uint64_t> mask) const {
    ArrowArray array{};
    NIMBLE_RETURN_IF_ERROR(Column::share_array(inputs, &array));
    const MaybeGil gil;
    if (!gil) {
      array.release(&array);
      return Status::io_error("the interpreter shuts down during a scan");
    }
    try {
      const py::tuple capsules = array_capsules(inputs->field(), &array);
      const auto result = ImportedArray::from_python(
          function_(import_batch_(capsules[0], capsules[1])));
      return copy_mask(result->view(), inputs->length(), mask);
    } catch (const py::error_already_set& e) {
      return python_failure(e, "filter");
    }
  }

 private:
  static Status copy_mask(const ArrayView& from, uint64_t rows,
                          std::span<uint64_t> mask) {
    if (from.field().layout != Layout::kBool ||
        static_cast<uint64_t>(from.length()) != rows) {
      return Status::invalid_argument("filter: expected " +
                                      std::to_string(rows) + " booleans, got " +
                                      std::to_string(from.length()) +
                                      " values of " + from.field().type_name());
    }
    const auto offset = static_cast<uint64_t>(from.offset());
    copy_bits(from.bits(), offset, rows,
              reinterpret_cast<uint8_t*>(mask.data()), 0);
    if (!from.may_have_nulls()) return Status::ok();
    std::vector<uint64_t> valid(mask.size());
    copy_bits(from.validity(), offset, rows,
              reinterpret_cast<uint8_t*>(valid.data()), 0);
    for (size_t i = 0; i < mask.size(); ++i) mask[i] &= valid[i];
    return Status::ok();
  }

  py::object function_, import_batch_;
};

ScanPart make_part(std::shared_ptr<RowReader> output,
                   const py::array_t<uint64_t, py::array::c_style>& ranges,
                   std::shared_ptr<RowFilter> filter,
                   std::shared_ptr<RowReader> inputs, const py::object& test) {
  const OpenFile& file = output->file();
  if ((filter && &filter->file() != &file) ||
      (inputs && &inputs->file() != &file)) {
    raise(Status::invalid_argument("the filter belongs to another file"));
  }
  if ((inputs == nullptr) != test.is_none()) {
    raise(
        Status::invalid_argument("expected both inputs and test, or neither"));
  }
  ScanPart part{std::move(output), rows_of_file(ranges, file),
                std::move(filter), std::move(inputs), nullptr};
  if (part.inputs != nullptr) {
    part.test = [call = std::make_shared<const PythonTest>(test)](
                    const auto& columns, auto mask) {
      return (*call)(columns, mask);
    };
  }
  return part;
}

// Deletes a scan without the GIL. Deleting waits for the scan's threads, and
// they may need the GIL.
struct DeleteWithoutGil {
  void operator()(Scan* scan) const {
    if (PyGILState_Check() == 0) {
      delete scan;
    } else {
      const WithoutGil nogil;
      delete scan;
    }
  }
};
using ScanPtr = std::unique_ptr<Scan, DeleteWithoutGil>;

ScanPtr create(const std::vector<const ScanPart*>& parts, ScanOptions options) {
  options.batch_rows = std::max<uint64_t>(1, options.batch_rows);
  options.threads = threads_or_default(options.threads);
  std::vector<ScanPart> copies;
  for (const ScanPart* part : parts) copies.push_back(*part);
  return ScanPtr(unwrap(without_gil([&] {
                   return Scan::create(std::move(copies), options);
                 })).release());
}

class BatchIterator {
 public:
  BatchIterator(ScanPtr scan, py::object schema)
      : scan_(std::move(scan)), schema_(std::move(schema)) {}

  // Python's iternext: returns null at the end, or with a Python error.
  static PyObject* next(PyObject* self) {
    return null_on_error(
        [&] { return py::cast<BatchIterator&>(py::handle(self)).next(); });
  }

 private:
  PyObject* next() {
    static PyObject* const import_batch =
        py::object(py::module_::import("pyarrow")
                       .attr("RecordBatch")
                       .attr("_import_from_c"))
            .release()
            .ptr();
    ArrowArray array{};
    check(without_gil([&] { return read(&array); }));
    if (array.release == nullptr) return nullptr;
    const py::int_ address(reinterpret_cast<uintptr_t>(&array));
    PyObject* const arguments[] = {address.ptr(), schema_.ptr()};
    PyObject* const batch =
        PyObject_Vectorcall(import_batch, arguments, 2, nullptr);
    if (array.release != nullptr) array.release(&array);  // not imported
    return batch;
  }

  Status read(ArrowArray* out) {
    // Does not wait for the lock: in a child of fork(), a mutex that another
    // thread had locked remains locked.
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) {
      return Status::invalid_argument(
          "iterator of a scan: next() was called while another call of it "
          "runs; "
          "expected one call at a time");
    }
    return scan_->next(out);
  }

  ScanPtr scan_;
  py::object schema_;
  std::mutex mutex_;
};

std::unique_ptr<BatchIterator> scan(const std::vector<const ScanPart*>& parts,
                                    const py::object& schema,
                                    uint64_t batch_rows, uint32_t threads,
                                    std::optional<uint64_t> limit) {
  ScanOptions options{batch_rows, threads};
  if (limit) options.limit = *limit;
  return std::make_unique<BatchIterator>(create(parts, options), schema);
}

uint64_t count(const std::vector<const ScanPart*>& parts, uint32_t threads) {
  ScanOptions options;
  options.threads = threads;
  const ScanPtr scan = create(parts, options);
  return unwrap(without_gil([&] { return scan->count(); }));
}

}  // namespace

void register_scan(py::module_& m) {
  py::class_<ScanPart>(m, "ScanPart")
      .def(py::init(&make_part), py::arg("output"), py::arg("ranges"),
           py::arg("filter") = nullptr, py::arg("inputs") = nullptr,
           py::arg("test") = py::none());
  py::class_<BatchIterator>(m, "BatchIterator",
                            py::custom_type_setup([](PyHeapTypeObject* type) {
                              type->ht_type.tp_iter = PyObject_SelfIter;
                              type->ht_type.tp_iternext = &BatchIterator::next;
                            }));
  m.def("scan", &scan, py::arg("parts"), py::arg("schema"),
        py::arg("batch_rows"), py::arg("threads"),
        py::arg("limit") = py::none());
  m.def("count", &count, py::arg("parts"), py::arg("threads"));
}

}  // namespace nimble
