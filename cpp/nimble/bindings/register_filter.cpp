// _core.RowFilter: a filter that the core applies to encoded data. Python's
// expr/pushdown.py converts its filter trees to these tuples:
//
//   ("and" | "or", [filter, ...])
//   ("null" | "valid", path)
//   ("test", path, op, values, negated)
#include <pybind11/stl.h>

#include "nimble/bindings/core_file.h"
#include "nimble/bindings/values/errors.h"
#include "nimble/bindings/values/gil.h"
#include "nimble/scan/from_arrow.h"
#include "nimble/scan/row_filter.h"

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

}  // namespace

void register_filter(py::module_& m) {
  py::class_<RowFilter, std::shared_ptr<RowFilter>>(m, "RowFilter")
      .def(py::init(&make_filter), py::arg("file"), py::arg("spec"));
}

}  // namespace nimble
