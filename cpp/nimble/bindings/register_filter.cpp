// _core.RowFilter: a filter that the core applies to encoded data. Python's
// file/pushdown.py converts its filter trees to these tuples:
//
//   ("and" | "or", [filter, ...])
//   ("null" | "valid", path)
//   ("test", path, op, values, negated)
//   ("formula", paths, terms, op, zero, negated)
//
// A term is (kind, operand): ("column", number), ("constant", integer), or an
// operator, ("+", 0). `zero` is an array of one int64. `op` compares the result
// with it.
#include <pybind11/stl.h>

#include "nimble/bindings/core_file.h"
#include "nimble/bindings/values/errors.h"
#include "nimble/bindings/values/gil.h"
#include "nimble/scan/filter_constants.h"
#include "nimble/scan/row_filter.h"

namespace py = pybind11;

namespace nimble {
namespace {

TestOp op_of(const std::string& name) {
  static const std::pair<const char*, TestOp> ops[] = {
      {"==", TestOp::kEqual},        {"<", TestOp::kLess},
      {"<=", TestOp::kLessEqual},    {">", TestOp::kGreater},
      {">=", TestOp::kGreaterEqual}, {"in", TestOp::kOneOf},
      {"prefix", TestOp::kPrefix},   {"contains", TestOp::kContains},
  };
  for (const auto& [text, op] : ops) {
    if (name == text) return op;
  }
  raise(Status::invalid_argument("unknown test '" + name + "'"));
}

Formula::Term term_of(const std::pair<std::string, int64_t>& term) {
  using Kind = Formula::Term::Kind;
  static const std::pair<const char*, Kind> kinds[] = {
      {"column", Kind::kColumn}, {"constant", Kind::kConstant},
      {"+", Kind::kAdd},         {"-", Kind::kSubtract},
      {"*", Kind::kMultiply},
  };
  for (const auto& [text, kind] : kinds) {
    if (term.first == text) return {kind, term.second};
  }
  raise(Status::invalid_argument("unknown term '" + term.first + "'"));
}

Predicate predicate_of(const py::tuple& spec, size_t at) {
  const auto values = ImportedArray::from_python(py::object(spec[at + 1]));
  Predicate out = unwrap(
      make_predicate(op_of(py::cast<std::string>(spec[at])), values->view()));
  out.negated = py::cast<bool>(spec[at + 2]);
  return out;
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
  if (kind == "formula") {
    out.kind = FilterNode::Kind::kFormula;
    for (const auto& path : py::cast<std::vector<ColumnPath>>(spec[1])) {
      FilterNode& column = out.children.emplace_back();
      column.kind = FilterNode::Kind::kValid;
      column.path = path;
    }
    using Terms = std::vector<std::pair<std::string, int64_t>>;
    for (const auto& term : py::cast<Terms>(spec[2])) {
      out.formula.terms.push_back(term_of(term));
    }
    out.test = predicate_of(spec, 3);
    return out;
  }
  out.path = py::cast<ColumnPath>(spec[1]);
  if (kind == "null" || kind == "valid") {
    out.kind =
        kind == "null" ? FilterNode::Kind::kNull : FilterNode::Kind::kValid;
    return out;
  }
  out.kind = FilterNode::Kind::kTest;
  out.test = predicate_of(spec, 2);
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
