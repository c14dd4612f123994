#include "nimble/serve/snapshot/key_filter.h"

#include <algorithm>
#include <charconv>

#include "nimble/scan/filter_constants.h"
#include "nimble/serve/snapshot/convert_column.h"
#include "nimble/serve/snapshot/row_slices.h"
#include "nimble/serve/snapshot/table_rows.h"
#include "nimble/serve/snapshot/value_text.h"

namespace nimble {
namespace {

constexpr size_t kMostFilterDepth = 32;
constexpr uint64_t kFilteredRows = 4096;  // decoded at once

Status bad_filter(const std::string& what) {
  return Status::invalid_argument("FILTER: " + what);
}

std::optional<TestOp> test_op_of(std::string_view word) {
  constexpr std::pair<std::string_view, TestOp> kOps[] = {
      {"==", TestOp::kEqual},        {"<", TestOp::kLess},
      {"<=", TestOp::kLessEqual},    {">", TestOp::kGreater},
      {">=", TestOp::kGreaterEqual}, {"in", TestOp::kOneOf},
      {"prefix", TestOp::kPrefix},   {"contains", TestOp::kContains},
  };
  for (const auto& [text, op] : kOps) {
    if (word == text) return op;
  }
  return std::nullopt;
}

// Appends a row, and joins it with the range before if they touch.
void add_filtered(uint32_t file, uint64_t row, bool reverse,
                  std::vector<FileRange>* out) {
  if (!out->empty() && out->back().file == file) {
    RowRange& last = out->back().rows;
    if (!reverse && last.end == row) {
      ++last.end;
      return;
    }
    if (reverse && last.begin == row + 1) {
      --last.begin;
      return;
    }
  }
  out->push_back({file, {row, row + 1}});
}

}  // namespace

class KeyFilter::Parser {
 public:
  Parser(const ServedTable& table, std::span<const std::string_view> words,
         KeyFilter* out)
      : table_(table), words_(words), out_(out) {}

  Status parse() {
    NIMBLE_RETURN_IF_ERROR(node(0, &out_->root_));
    if (at_ == words_.size()) return Status::ok();
    return bad_filter("words follow the condition");
  }

 private:
  Result<std::string_view> word() {
    if (at_ == words_.size()) return bad_filter("the condition is cut");
    return words_[at_++];
  }
  Result<uint64_t> count() {
    NIMBLE_ASSIGN_OR_RETURN(const std::string_view text, word());
    uint64_t n = 0;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), n);
    if (error != std::errc() || end != text.data() + text.size() ||
        n > words_.size() - at_) {
      return bad_filter("expected a number of the words that follow");
    }
    return n;
  }
  // Reads the name of a key column. Sets *place to its place in columns_.
  Result<const Field*> column(size_t* place) {
    NIMBLE_ASSIGN_OR_RETURN(const std::string_view name, word());
    const auto c = table_.find_column(name);
    const std::optional<ServedKey>& key = table_.manifest().cluster_key;
    const bool is_key =
        c && key &&
        std::any_of(key->columns.begin(), key->columns.end(),
                    [&](const KeyColumnSpec& k) {
                      return k.path.size() == 1 &&
                             static_cast<uint32_t>(k.path[0]) == *c;
                    });
    if (!is_key) {
      return bad_filter("'" + std::string(name.substr(0, 100)) +
                        "' is not a column of the cluster key");
    }
    auto at = std::find(out_->columns_.begin(), out_->columns_.end(), *c);
    if (at == out_->columns_.end()) {
      at = out_->columns_.insert(at, *c);
    }
    *place = static_cast<size_t>(at - out_->columns_.begin());
    const Field& field = table_.schema().children[*c];
    return field.layout == Layout::kDictionary ? &field.dictionary[0] : &field;
  }
  Status test(Node* node) {
    NIMBLE_ASSIGN_OR_RETURN(const Field* field, column(&node->column));
    NIMBLE_ASSIGN_OR_RETURN(const std::string_view op_word, word());
    const std::optional<TestOp> op = test_op_of(op_word);
    NIMBLE_ASSIGN_OR_RETURN(const std::string_view negated, word());
    if (!op || (negated != "0" && negated != "1")) {
      return bad_filter("expected a test, then 0 or 1");
    }
    NIMBLE_ASSIGN_OR_RETURN(const uint64_t n, count());
    if (field->layout != Layout::kFixed && field->layout != Layout::kBool &&
        field->layout != Layout::kBytes) {
      return bad_filter("column '" + field->name + "' cannot be tested");
    }
    Column values(*field, false);
    for (uint64_t i = 0; i < n; ++i) {
      NIMBLE_ASSIGN_OR_RETURN(const std::string_view text, word());
      std::string value;
      if (parse_text(*field, text, &value) != TextFit::kExact) {
        return bad_filter("'" + std::string(text.substr(0, 100)) +
                          "' is not a value of column '" + field->name + "' (" +
                          field->type_name() + ")");
      }
      append_constant(&value, 1, &values);
    }
    ArrowArray array{};
    NIMBLE_RETURN_IF_ERROR(std::move(values).export_array(&array));
    const auto make = [&]() -> Status {
      NIMBLE_ASSIGN_OR_RETURN(const ArrayView view,
                              ArrayView::open(*field, array, ""));
      NIMBLE_ASSIGN_OR_RETURN(node->test, make_predicate(*op, view));
      return Status::ok();
    };
    Status status = make();
    array.release(&array);
    node->test.negated = negated == "1";
    return status;
  }
  Status node(size_t depth, Node* out) {
    if (depth > kMostFilterDepth) return bad_filter("it is nested too deeply");
    NIMBLE_ASSIGN_OR_RETURN(const std::string_view kind, word());
    if (kind == "AND" || kind == "OR") {
      out->kind = kind == "AND" ? Kind::kAnd : Kind::kOr;
      NIMBLE_ASSIGN_OR_RETURN(const uint64_t n, count());
      for (uint64_t i = 0; i < n; ++i) {
        NIMBLE_RETURN_IF_ERROR(node(depth + 1, &out->children.emplace_back()));
      }
      return Status::ok();
    }
    if (kind == "NULL" || kind == "VALID") {
      out->kind = kind == "NULL" ? Kind::kNull : Kind::kValid;
      return column(&out->column).has_value()
                 ? Status::ok()
                 : bad_filter("expected a column of the cluster key");
    }
    if (kind != "TEST") {
      return bad_filter("expected AND, OR, NULL, VALID or TEST");
    }
    out->kind = Kind::kTest;
    return test(out);
  }

  const ServedTable& table_;
  const std::span<const std::string_view> words_;
  KeyFilter* const out_;
  size_t at_ = 0;
};

Result<KeyFilter> KeyFilter::parse(const ServedTable& table,
                                   std::span<const std::string_view> words) {
  KeyFilter out;
  NIMBLE_RETURN_IF_ERROR(Parser(table, words, &out).parse());
  return out;
}

bool KeyFilter::passes(const Node& node, std::span<const Column* const> columns,
                       uint64_t row) {
  const auto child = [&](const Node& c) { return passes(c, columns, row); };
  switch (node.kind) {
    case Kind::kAnd:
      return std::all_of(node.children.begin(), node.children.end(), child);
    case Kind::kOr:
      return std::any_of(node.children.begin(), node.children.end(), child);
    case Kind::kNull:
      return !columns[node.column]->is_valid(row);
    case Kind::kValid:
      return columns[node.column]->is_valid(row);
    case Kind::kTest:
      break;
  }
  const Column& column = *columns[node.column];
  if (!column.is_valid(row)) return false;
  uint8_t bit = 0;
  const ByteSpan value = flat_value(column, row, &bit);
  return column.field().layout == Layout::kBytes
             ? nimble::passes(node.test, as_string(value))
             : nimble::passes(node.test, value.data());
}

Result<uint64_t> KeyFilter::append_passing(const ServedTable& table,
                                           std::span<const FileRange> rows,
                                           bool reverse, uint64_t most,
                                           std::vector<FileRange>* out) const {
  uint64_t tested = 0, passed = 0;
  RowSlices slices(rows, reverse);
  NIMBLE_ASSIGN_OR_RETURN(const TableRows reader,
                          TableRows::create(table, rows, columns_));
  while (!slices.is_done() && passed < most) {
    const std::vector<FileRange> slice = slices.next(kFilteredRows);
    Column read = reader.make_output();
    NIMBLE_RETURN_IF_ERROR(reader.append(slice, reverse, &read));
    std::vector<Field> forms;
    std::vector<std::unique_ptr<Column>> converted;
    std::vector<const Column*> columns;
    forms.reserve(columns_.size());
    for (const Column& column : read.children) {
      columns.push_back(&column);
      if (column.field().layout != Layout::kDictionary) continue;
      Field& form = forms.emplace_back(plain_field(column.field()));
      NIMBLE_RETURN_IF_ERROR(form.resolve(""));
      converted.push_back(std::make_unique<Column>(form, false));
      NIMBLE_RETURN_IF_ERROR(append_converted(column, converted.back().get()));
      columns.back() = converted.back().get();
    }
    uint64_t i = 0;
    for (const FileRange& r : slice) {
      const uint64_t n = r.rows.size();
      for (uint64_t k = 0; k < n && passed < most; ++k, ++i, ++tested) {
        if (!passes(root_, columns, i)) continue;
        const uint64_t row = reverse ? r.rows.end - 1 - k : r.rows.begin + k;
        add_filtered(r.file, row, reverse, out);
        ++passed;
      }
    }
  }
  return tested;
}

}  // namespace nimble
