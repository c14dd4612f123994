#include "nimble/bindings/values/key_batch.h"

#include "nimble/bindings/values/errors.h"
#include "nimble/key/key_encoder.h"

namespace py = pybind11;

namespace nimble {

std::vector<KeyColumnSpec> key_specs(const KeyOrders& orders) {
  std::vector<KeyColumnSpec> specs;
  for (const auto& [descending, nulls_first] : orders) {
    specs.push_back(
        {{static_cast<int>(specs.size())}, {descending, nulls_first}});
  }
  return specs;
}

KeyBatch::KeyBatch(const std::vector<KeyColumnSpec>& columns,
                   const py::handle& batch, bool null_equals,
                   const std::optional<Flags>& impossible)
    : columns_(columns), batch_(ImportedArray::from_python(batch)) {
  const ArrayView& view = batch_->view();
  const size_t n = batch_->field().children.size();
  if (n == 0 || n > columns.size()) {
    raise(Status::invalid_argument("keys have " + std::to_string(n) +
                                   " columns; the index has " +
                                   std::to_string(columns.size())));
  }
  whole_ = n == columns.size();
  num_rows_ = static_cast<size_t>(view.length());
  std::vector<KeyColumnSpec> specs;
  for (size_t i = 0; i < n; ++i) {
    specs.push_back({{static_cast<int>(i)}, columns[i].order});
  }
  encoder_ = unwrap(KeyEncoder::create(batch_->field(), specs));
  KeyBuffer all;
  check(encoder_.encode(view, 0, view.length(), &all));
  std::vector<uint8_t> left_out;
  if (impossible) {
    if (static_cast<size_t>(impossible->size()) != num_rows_) {
      raise(Status::invalid_argument(
          "impossible: expected one flag for each key"));
    }
    left_out.assign(impossible->data(), impossible->data() + num_rows_);
  }
  for (const ArrayView& c : view.children()) {
    if (null_equals || !c.may_have_nulls()) continue;
    left_out.resize(num_rows_);
    for (size_t i = 0; i < num_rows_; ++i) {
      left_out[i] |= !c.is_valid(view.child_row(static_cast<int64_t>(i)));
    }
  }
  if (std::find(left_out.begin(), left_out.end(), 1) == left_out.end()) {
    keys_ = std::move(all);
    return;
  }
  keys_.reset(all.fixed_width());
  for (size_t i = 0; i < num_rows_; ++i) {
    if (left_out[i] != 0) continue;
    keys_.push_back(all.key(i));
    numbers_.push_back(i);
  }
}

std::optional<size_t> KeyBatch::key_column(const RowReader& reader,
                                           size_t column) const {
  if (reader.is_nested(column)) return std::nullopt;
  const std::vector<Field>& fields = batch_->field().children;
  const Field& wanted = reader.schema().children[column];
  const std::vector<uint32_t>& top = reader.file().plan().node(0).children;
  for (size_t i = 0; i < fields.size(); ++i) {
    const std::vector<int>& path = columns_[i].path;
    if (path.size() != 1) continue;
    // Floats are excluded, because floats with equal keys may have different
    // bits.
    if (top[static_cast<size_t>(path[0])] == reader.node(column) &&
        (wanted.layout == Layout::kFixed || wanted.layout == Layout::kBytes) &&
        wanted.logical != Logical::kFloat &&
        fields[i].layout == wanted.layout &&
        fields[i].format == wanted.format) {
      return i;
    }
  }
  return std::nullopt;
}

std::vector<uint8_t> KeyBatch::known_columns(const RowReader& reader) const {
  std::vector<uint8_t> known;
  for (size_t c = 0; c < reader.schema().children.size(); ++c) {
    known.push_back(key_column(reader, c).has_value());
  }
  return known;
}

Status KeyBatch::append_known(const RowReader& reader, size_t column,
                              const std::vector<uint64_t>& rows,
                              Column* out) const {
  const ArrayView& view = batch_->view();
  const ArrayView& values = view.children()[*key_column(reader, column)];
  Column all(out->field(), false);
  NIMBLE_RETURN_IF_ERROR(
      all.append(values, view.child_row(0), view.length(), out->field().name));
  out->append_rows(all, rows.data(), rows.size());
  return Status::ok();
}

}  // namespace nimble
