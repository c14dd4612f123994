// _core.RowFilter: a filter that the core applies to encoded data. Python's
// native_filter.py converts its filter trees to these tuples:
//
//   ("and" | "or", [filter, ...])
//   ("null" | "valid", path)
//   ("test", path, op, values, negated)
#include <pybind11/stl.h>

#include "nimble/bindings/core_file.h"
#include "nimble/bindings/values/errors.h"
#include "nimble/bindings/values/gil.h"
#include "nimble/scan/batch_scan.h"
#include "nimble/scan/from_arrow.h"
#include "nimble/threads/parallel.h"

namespace py = pybind11;

namespace nimble {
namespace {

TestOp op_of(const std::string& name) {
  static const std::pair<const char*, TestOp> ops[] = {
      {"==", TestOp::kEqual},        {"<", TestOp::kLess},
      {"<=", TestOp::kLessEqual},    {">", TestOp::kGreater},
      {">=", TestOp::kGreaterEqual}, {"in", TestOp::kOneOf},
      {"prefix", TestOp::kPrefix},
  };
  for (const auto& [text, op] : ops) {
    if (name == text) return op;
  }
  raise(Status::invalid_argument("no test is called '" + name + "'"));
}

FilterNode node_of(const py::tuple& spec) {
  FilterNode out;
  const auto kind = py::cast<std::string>(spec[0]);
  if (kind == "and" || kind == "or") {
    out.kind = kind == "and" ? FilterNode::Kind::kAnd : FilterNode::Kind::kOr;
    for (const py::handle& child : py::cast<py::list>(spec[1])) {
      out.children.push_back(node_of(py::cast<py::tuple>(child)));
    }
    return out;
  }
  out.path = py::cast<ColumnPath>(spec[1]);
  if (kind == "null" || kind == "valid") {
    out.kind =
        kind == "null" ? FilterNode::Kind::kNull : FilterNode::Kind::kValid;
    return out;
  }
  out.kind = FilterNode::Kind::kTest;
  const auto values = ImportedArray::from_python(py::object(spec[3]));
  out.test = unwrap(
      make_predicate(op_of(py::cast<std::string>(spec[2])), values->view()));
  out.test.negated = py::cast<bool>(spec[4]);
  return out;
}

uint32_t threads_of(uint32_t threads) {
  return threads == 0 ? default_threads() : threads;
}

std::shared_ptr<RowFilter> make_filter(std::shared_ptr<FileReader> file,
                                       const py::tuple& spec) {
  FilterNode root = node_of(spec);
  Result<std::shared_ptr<const RowFilter>> made =
      Status::invalid_argument("not made");
  {
    const WithoutGil nogil;
    made = RowFilter::create(std::move(file), std::move(root));
  }
  return std::const_pointer_cast<RowFilter>(unwrap(std::move(made)));
}

uint64_t count(const RowFilter& filter,
               const py::array_t<uint64_t, py::array::c_style>& ranges,
               uint32_t threads) {
  std::vector<RowRange> r = rows_of_file(ranges, filter.file());
  Result<uint64_t> found = uint64_t{0};
  {
    const WithoutGil nogil;
    found = count_rows_that_pass(filter, std::move(r), threads_of(threads));
  }
  return unwrap(std::move(found));
}

py::array_t<uint64_t> rows(
    const RowFilter& filter,
    const py::array_t<uint64_t, py::array::c_style>& ranges, uint32_t threads) {
  std::vector<RowRange> r = rows_of_file(ranges, filter.file());
  Result<std::vector<uint64_t>> found = std::vector<uint64_t>{};
  {
    const WithoutGil nogil;
    found = rows_that_pass(filter, std::move(r), threads_of(threads));
  }
  const std::vector<uint64_t> passing = unwrap(std::move(found));
  return py::array_t<uint64_t>(static_cast<py::ssize_t>(passing.size()),
                               passing.data());
}

}  // namespace

std::vector<RowRange> rows_of_file(
    const py::array_t<uint64_t, py::array::c_style>& ranges,
    const OpenFile& file) {
  std::vector<RowRange> r = ranges_from_numpy(ranges);
  for (const RowRange& range : r) {
    if (range.end <= file.num_rows()) continue;
    raise(Status::invalid_argument("rows [" + std::to_string(range.begin) +
                                   ", " + std::to_string(range.end) +
                                   ") of a file of " +
                                   std::to_string(file.num_rows())));
  }
  return merge_ranges(std::move(r));
}

void register_filter(py::module_& m) {
  py::class_<RowFilter, std::shared_ptr<RowFilter>>(m, "RowFilter")
      .def(py::init(&make_filter), py::arg("file"), py::arg("spec"))
      .def("count", &count, py::arg("ranges"), py::arg("threads"))
      .def("rows", &rows, py::arg("ranges"), py::arg("threads"));
}

}  // namespace nimble
