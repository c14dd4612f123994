#include "nimble/scan/row_filter.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "nimble/encoding/core/int_values.h"
#include "nimble/encoding/core/part.h"
#include "nimble/format/constants.h"

namespace nimble {
namespace {

constexpr uint32_t kWords = kSegmentValues / 64;

// Orders tests by cost, because later tests only see rows that passed earlier
// ones. Testing a number costs less than testing a string, and a string less
// than a group of tests.
int cost_of(const FilterNode& node) {
  switch (node.kind) {
    case FilterNode::Kind::kNull:
    case FilterNode::Kind::kValid:
      return 0;
    case FilterNode::Kind::kTest:
      return node.test.type.kind == ValueKind::kBytes ? 2 : 1;
    default:
      return 3;
  }
}

// Intersects two range tests of one column into `a`. Returns false if they
// cannot be combined.
bool merge_ranges_of(FilterNode* a, const FilterNode& b) {
  const auto is_range = [](const FilterNode& n) {
    return n.kind == FilterNode::Kind::kTest && !n.test.negated &&
           n.test.shape == Predicate::Shape::kRange &&
           n.test.type.kind == ValueKind::kInt;
  };
  if (!is_range(*a) || !is_range(b) || a->node != b.node) return false;
  const bool is_signed = a->test.type.is_signed;
  Bounds<uint64_t>& x = a->test.ints;
  const Bounds<uint64_t>& y = b.test.ints;
  if (int_less(is_signed, x.low, y.low)) x.low = y.low;
  if (int_less(is_signed, y.high, x.high)) x.high = y.high;
  if (int_less(is_signed, x.high, x.low)) {
    a->test.shape = Predicate::Shape::kNothing;
  }
  return true;
}

bool is_text(const Field& field) {
  return field.layout == Layout::kBytes && field.logical == Logical::kText;
}

NIMBLE_CLONES bool is_ascii(ByteSpan bytes) {
  uint8_t bits = 0;
  for (const uint8_t byte : bytes) bits |= byte;
  return bits < 0x80;
}

// Returns the number of characters of a text: of all bytes but those that
// continue one. REQUIRES: 8 bytes are readable after the text.
int64_t count_characters(const uint8_t* text, uint64_t size) {
  constexpr uint64_t kLowBits = 0x0101010101010101;
  uint64_t continuing = 0;
  for (uint64_t i = 0; i < size; i += 8) {
    uint64_t word = load<uint64_t>(text + i);
    if (size - i < 8) word &= ~(~uint64_t{0} << (8 * (size - i)));
    continuing += static_cast<uint64_t>(
        std::popcount((word >> 7) & ~(word >> 6) & kLowBits));
  }
  return static_cast<int64_t>(size - continuing);
}

// For a file that is not mapped: requests the texts of the selected rows of a
// segment, or of all rows if many are selected.
Status want_texts(const StripeReader& reader, uint32_t node, uint64_t begin,
                  uint64_t end, const uint64_t* selection) {
  std::vector<uint32_t> rows(count_selected(selection, kWords));
  if (end - begin < rows.size() * kRowsApart) {
    return reader.want_range(node, begin, end);
  }
  selected_rows(selection, kWords, 0, rows.data());
  std::vector<uint64_t> places;
  places.reserve(rows.size());
  for (const uint32_t row : rows) places.push_back(begin + row);
  return reader.want_rows(node, places.data(), places.size());
}

// Reads the lengths of texts, block by block. The buffers are reused.
class TextLengths {
 public:
  explicit TextLengths(const Field& field) : texts_(field, true) {}

  // Stores the number of characters of the texts of rows [begin, end) of the
  // stripe to `out`; 0 for rows that are not selected.
  Status read(const StripeReader& reader, uint32_t node, uint64_t begin,
              uint64_t end, const uint64_t* selection, int64_t* out) {
    texts_.clear();
    std::fill_n(out, end - begin, int64_t{0});
    uint32_t rows[kBlockValues];
    const uint32_t n = selected_rows(
        selection, static_cast<uint32_t>(div_ceil(end - begin, 64)), 0, rows);
    const bool dense = end - begin < uint64_t{n} * kRowsApart;
    if (dense) {
      NIMBLE_RETURN_IF_ERROR(reader.read_range(node, begin, end, &texts_));
    } else {
      uint64_t places[kBlockValues];
      for (uint32_t i = 0; i < n; ++i) places[i] = begin + rows[i];
      NIMBLE_RETURN_IF_ERROR(reader.read_rows(node, places, n, &texts_));
    }
    const BytesSink& bytes = texts_.bytes;
    const uint8_t* const data = bytes.data.data();
    const bool one_byte = is_ascii({data, bytes.end_of(texts_.length() - 1)});
    for (uint32_t i = 0; i < n; ++i) {
      const uint64_t at = dense ? rows[i] : i;
      const uint64_t start = bytes.begin_of(at);
      const uint64_t size = bytes.end_of(at) - start;
      out[rows[i]] = one_byte ? static_cast<int64_t>(size)
                              : count_characters(data + start, size);
    }
    return Status::ok();
  }

 private:
  Column texts_;
};

void order_children(FilterNode* node) {
  if (node->kind == FilterNode::Kind::kAnd) {
    std::vector<FilterNode> kept;
    for (FilterNode& child : node->children) {
      const bool merged = std::any_of(
          kept.begin(), kept.end(),
          [&](FilterNode& k) { return merge_ranges_of(&k, child); });
      if (!merged) kept.push_back(std::move(child));
    }
    node->children = std::move(kept);
  }
  std::stable_sort(node->children.begin(), node->children.end(),
                   [](const FilterNode& a, const FilterNode& b) {
                     return cost_of(a) < cost_of(b);
                   });
}

}  // namespace

uint64_t FilterWindow::rows() const { return count_rows(ranges); }

// ------------------------------------------------------------------ resolving

const Field* RowFilter::tested_field(const Field& field) {
  const Field* f = &field;
  if (f->layout == Layout::kDictionary) f = &f->dictionary[0];
  if (f->layout != Layout::kFixed && f->layout != Layout::kBool &&
      f->layout != Layout::kBytes) {
    return nullptr;
  }
  // Half floats are stored as integers, which have another order. Intervals do
  // not have an order.
  if (f->logical == Logical::kInterval ||
      (f->logical == Logical::kFloat && f->width == 2)) {
    return nullptr;
  }
  return can_be_tested(f->value_type()) ? f : nullptr;
}

Result<std::shared_ptr<const RowFilter>> RowFilter::create(
    std::shared_ptr<const OpenFile> file, FilterNode root) {
  std::shared_ptr<RowFilter> out(new RowFilter());
  out->file_ = std::move(file);
  NIMBLE_RETURN_IF_ERROR(out->resolve(&root));
  out->root_ = std::move(root);
  return std::shared_ptr<const RowFilter>(std::move(out));
}

Status RowFilter::resolve(FilterNode* node) {
  for (FilterNode& child : node->children) {
    NIMBLE_RETURN_IF_ERROR(resolve(&child));
  }
  if (node->kind == FilterNode::Kind::kAnd ||
      node->kind == FilterNode::Kind::kOr) {
    order_children(node);
    return Status::ok();
  }
  if (node->kind == FilterNode::Kind::kFormula) return check_formula(*node);
  NIMBLE_ASSIGN_OR_RETURN(PlannedColumn found,
                          find_column(file_->plan(), node->path));
  node->node = found.node;
  node->parents = std::move(found.parents);
  const Field* const field = found.field;
  if (node->kind != FilterNode::Kind::kTest) return Status::ok();
  const Field* tested = tested_field(*field);
  if (tested == nullptr || tested->value_type() != node->test.type) {
    return Status::unsupported("column '" +
                               path_name(file_->footer().schema, node->path) +
                               "' of type " + field->type_name() +
                               " cannot be tested with these values");
  }
  if (field->layout == Layout::kDictionary) return resolve_dictionary(node);
  return Status::ok();
}

Status RowFilter::check_formula(const FilterNode& node) const {
  for (const FilterNode& column : node.children) {
    const Field& field = *file_->plan().node(column.node).field;
    if (column.kind == FilterNode::Kind::kValid &&
        (is_text(field) || (field.layout == Layout::kFixed &&
                            Formula::can_have(field.value_type())))) {
      continue;
    }
    return Status::unsupported(
        "column '" + path_name(file_->footer().schema, column.path) +
        "' of type " + field.type_name() + " cannot be part of a formula");
  }
  return node.formula.check(node.children.size());
}

// Tests each value of the dictionary once, and then the codes in the file.
Status RowFilter::resolve_dictionary(FilterNode* node) const {
  NIMBLE_ASSIGN_OR_RETURN(
      const std::shared_ptr<const DictionaryValues> dictionary,
      dictionary_of(*file_, node->node));
  const Column& values = dictionary->values;
  const uint32_t n = static_cast<uint32_t>(
      std::min<uint64_t>(values.length(), uint64_t{UINT32_MAX}));
  Predicate codes;
  codes.type = file_->plan().streams()[file_->plan().node(node->node).values];
  codes.shape = Predicate::Shape::kTable;
  codes.table.resize(n);
  const Predicate& test = node->test;
  for (uint32_t i = 0; i < n; ++i) {
    bool pass = false;
    if (test.type.kind == ValueKind::kBytes) {
      const auto* data =
          reinterpret_cast<const char*>(values.bytes.data.data());
      const uint64_t begin = values.bytes.begin_of(i);
      pass = passes(test, {data + begin, values.bytes.end_of(i) - begin});
    } else if (test.type.kind == ValueKind::kBool) {
      const uint8_t value = get_bit(values.values.data(), uint64_t{i}) ? 1 : 0;
      pass = passes(test, &value);
    } else {
      pass = passes(test, values.value_data() + uint64_t{i} * test.type.width);
    }
    codes.table[i] = pass && values.is_valid(i) ? 1 : 0;
  }
  node->test = std::move(codes);
  return Status::ok();
}

// -------------------------------------------------------------------- windows

Result<bool> RowFilter::Windows::next(FilterWindow* out) {
  *out = FilterWindow{};
  while (at_ < ranges_.size() && ranges_[at_].empty()) ++at_;
  if (at_ == ranges_.size()) return false;
  const uint64_t row = ranges_[at_].begin;
  NIMBLE_ASSIGN_OR_RETURN(const GroupHandle group,
                          file_.groups().get(file_.group_of(row)));
  const StripeView& stripe = group->view().stripe_of(row);
  out->segment =
      static_cast<uint32_t>((row - stripe.first_row) / kSegmentValues);
  out->first_row = stripe.first_row + uint64_t{out->segment} * kSegmentValues;
  const uint64_t end =
      std::min(stripe.first_row + stripe.rows, out->first_row + kSegmentValues);
  for (; at_ < ranges_.size() && ranges_[at_].begin < end; ++at_) {
    RowRange& r = ranges_[at_];
    if (r.empty()) continue;
    out->ranges.push_back({r.begin, std::min(r.end, end)});
    r.begin = out->ranges.back().end;
    if (!r.empty()) break;
  }
  return true;
}

// ------------------------------------------------------------------- applying

bool PassingRows::is_dense() const {
  const std::span<const uint32_t> all = rows();
  return !all.empty() && all.back() - all.front() < all.size() * kRowsApart;
}

Status RowFilter::select(const FilterWindow& window, PassingRows* out) const {
  std::vector<uint64_t> selection;
  NIMBLE_RETURN_IF_ERROR(narrow(window, &selection));
  out->first_row = window.first_row;
  selected_rows(selection.data(), kWords, 0,
                out->resize(count_selected(selection.data(), kWords)));
  return Status::ok();
}

Status RowFilter::count(const FilterWindow& window, uint64_t* count) const {
  std::vector<uint64_t> selection;
  NIMBLE_RETURN_IF_ERROR(narrow(window, &selection));
  *count += count_selected(selection.data(), kWords);
  return Status::ok();
}

namespace {

// Approximate nanoseconds that a formula takes for one value of a column.
constexpr double kFormulaNanos = 1;

// Testing encoded values takes about a quarter of the time of decoding them.
double test_nanos_of(const FilterNode& node, const StripeReader& reader) {
  double nanos = 0;
  for (const FilterNode& c : node.children) nanos += test_nanos_of(c, reader);
  if (node.kind == FilterNode::Kind::kTest) {
    nanos += reader.decode_nanos(node.node) / 4;
  } else if (node.kind == FilterNode::Kind::kFormula) {
    for (const FilterNode& column : node.children) {
      nanos += reader.decode_nanos(column.node) + kFormulaNanos;
    }
  }
  return nanos;
}

}  // namespace

double RowFilter::test_nanos(uint64_t row) const {
  const auto group = file_->groups().get(file_->group_of(row));
  if (!group) return 0;  // reading reports the error
  return test_nanos_of(root_,
                       StripeReader(*file_, file_->plan(), **group,
                                    (*group)->view().stripe_of(row), nullptr));
}

Status RowFilter::narrow(const FilterWindow& window,
                         std::vector<uint64_t>* selection) const {
  selection->assign(kWords, 0);
  auto* const bits = reinterpret_cast<uint8_t*>(selection->data());
  for (const RowRange& r : window.ranges) {
    fill_bits(bits, r.begin - window.first_row, r.size(), true);
  }
  NIMBLE_ASSIGN_OR_RETURN(
      const GroupHandle group,
      file_->groups().get(file_->group_of(window.first_row)));
  const StripeView& stripe = group->view().stripe_of(window.first_row);
  FetchedBodies fetched(file_->file(), file_->range_cache(), file_->stats());
  const StripeReader reader(*file_, file_->plan(), *group, stripe, &fetched);
  return apply(root_, reader, window.segment, selection->data())
      .with_context(file_->file().name());
}

Status RowFilter::apply(const FilterNode& node, const StripeReader& reader,
                        uint32_t segment, uint64_t* selection) const {
  switch (node.kind) {
    case FilterNode::Kind::kAnd:
      for (const FilterNode& child : node.children) {
        if (std::all_of(selection, selection + kWords,
                        [](uint64_t w) { return w == 0; })) {
          return Status::ok();
        }
        NIMBLE_RETURN_IF_ERROR(apply(child, reader, segment, selection));
      }
      return Status::ok();
    case FilterNode::Kind::kOr:
      return apply_or(node, reader, segment, selection);
    case FilterNode::Kind::kNull:
      return apply_null(node, reader, segment, selection);
    case FilterNode::Kind::kValid:
      return apply_valid(node, reader, segment, selection);
    case FilterNode::Kind::kFormula:
      return apply_formula(node, reader, segment, selection);
    case FilterNode::Kind::kTest:
      break;
  }
  NIMBLE_RETURN_IF_ERROR(apply_valid(node, reader, segment, selection));
  return reader.filter_values(node.node, segment, node.test, selection)
      .with_context("column '" + path_name(file_->footer().schema, node.path) +
                    "'");
}

Status RowFilter::apply_formula(const FilterNode& node,
                                const StripeReader& reader, uint32_t segment,
                                uint64_t* selection) const {
  const uint64_t first = uint64_t{segment} * kSegmentValues;
  const uint64_t end =
      std::min<uint64_t>(first + kSegmentValues, reader.num_rows());
  for (const FilterNode& column : node.children) {
    NIMBLE_RETURN_IF_ERROR(apply_valid(column, reader, segment, selection));
    const Field& field = *file_->plan().node(column.node).field;
    NIMBLE_RETURN_IF_ERROR(
        is_text(field) ? want_texts(reader, column.node, first, end, selection)
                       : reader.want_range(column.node, first, end));
  }
  std::vector<std::optional<TextLengths>> lengths(node.children.size());
  for (size_t i = 0; i < node.children.size(); ++i) {
    const Field& field = *file_->plan().node(node.children[i].node).field;
    if (is_text(field)) lengths[i].emplace(field);
  }
  FormulaTest test(node.formula, node.children.size(), node.test);
  for (uint64_t row = first; row < end; row += kBlockValues) {
    uint64_t* const words = selection + (row - first) / 64;
    if (count_selected(words, kSelectionWords) == 0) continue;
    const uint64_t stop = std::min<uint64_t>(row + kBlockValues, end);
    for (size_t i = 0; i < node.children.size(); ++i) {
      const FilterNode& column = node.children[i];
      Status read;
      if (lengths[i]) {
        *test.type(i) = ValueType::signed_int(8);
        read = lengths[i]->read(reader, column.node, row, stop, words,
                                reinterpret_cast<int64_t*>(test.values(i)));
      } else {
        read = reader.read_integers(column.node, row, stop, test.values(i),
                                    test.type(i));
      }
      if (!read) {
        return std::move(read).with_context(
            "column '" + path_name(file_->footer().schema, column.path) + "'");
      }
    }
    test.apply(static_cast<uint32_t>(stop - row), words);
  }
  return Status::ok();
}

// Later children only test rows that no earlier child has passed.
Status RowFilter::apply_or(const FilterNode& node, const StripeReader& reader,
                           uint32_t segment, uint64_t* selection) const {
  std::vector<uint64_t> left(selection, selection + kWords);
  std::fill(selection, selection + kWords, uint64_t{0});
  std::vector<uint64_t> passed(kWords);
  for (const FilterNode& child : node.children) {
    passed = left;
    NIMBLE_RETURN_IF_ERROR(apply(child, reader, segment, passed.data()));
    for (uint32_t w = 0; w < kWords; ++w) {
      selection[w] |= passed[w];
      left[w] &= ~passed[w];
    }
  }
  return Status::ok();
}

Status RowFilter::apply_valid(const FilterNode& node,
                              const StripeReader& reader, uint32_t segment,
                              uint64_t* selection) const {
  for (const uint32_t parent : node.parents) {
    NIMBLE_RETURN_IF_ERROR(reader.filter_valid(parent, segment, selection));
  }
  return reader.filter_valid(node.node, segment, selection);
}

Status RowFilter::apply_null(const FilterNode& node, const StripeReader& reader,
                             uint32_t segment, uint64_t* selection) const {
  std::vector<uint64_t> valid(selection, selection + kWords);
  NIMBLE_RETURN_IF_ERROR(apply_valid(node, reader, segment, valid.data()));
  for (uint32_t w = 0; w < kWords; ++w) selection[w] &= ~valid[w];
  return Status::ok();
}

}  // namespace nimble
