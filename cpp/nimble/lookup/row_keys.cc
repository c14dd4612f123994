#include "nimble/lookup/row_keys.h"

#include <algorithm>

namespace nimble {
namespace {

// More rows than this are decoded together rather than tried one by one: where
// single values cost a block each, so does the search.
constexpr uint64_t kMaxTried = 32;

bool is_plain(const Field& field) {
  return field.layout == Layout::kBytes ||
         (field.layout == Layout::kFixed && field.logical != Logical::kFloat &&
          field.logical != Logical::kInterval);
}

}  // namespace

Result<std::unique_ptr<const RowKeys>> RowKeys::create(
    const OpenFile& file, const std::vector<KeyColumnSpec>& columns) {
  std::vector<OutputColumn> outputs;
  std::vector<KeyColumnSpec> specs;
  for (const KeyColumnSpec& c : columns) {
    specs.push_back({{static_cast<int>(outputs.size())}, c.order});
    outputs.push_back({c.path, path_name(file.footer().schema, c.path)});
  }
  const std::shared_ptr<const OpenFile> borrowed(&file, [](const OpenFile*) {});
  NIMBLE_ASSIGN_OR_RETURN(auto rows, RowReader::create(borrowed, outputs));
  NIMBLE_ASSIGN_OR_RETURN(KeyEncoder encoder,
                          KeyEncoder::create(rows->schema(), specs));
  std::unique_ptr<RowKeys> out(
      new RowKeys(std::move(rows), std::move(encoder)));
  out->open_parts(specs);
  return std::unique_ptr<const RowKeys>(std::move(out));
}

void RowKeys::open_parts(const std::vector<KeyColumnSpec>& specs) {
  const OpenFile& file = rows_->file();
  if (file.file().mapped() == nullptr) return;
  for (size_t i = 0; i < specs.size(); ++i) {
    const auto column = FlatColumn::of(file.plan(), rows_->node(i));
    const Field& field = rows_->schema().children[i];
    if (specs[i].path.size() != 1 || rows_->is_nested(i) || !column ||
        !is_plain(field)) {
      parts_.clear();
      return;
    }
    parts_.push_back({*column, field});
  }
}

Status RowKeys::append_keys(Column&& read, KeyBuffer* out) const {
  ArrowArray array{};
  NIMBLE_RETURN_IF_ERROR(std::move(read).export_array(&array));
  auto view = ArrayView::open(rows_->schema(), array, "");
  Status status = view ? encoder_.encode(*view, 0, view->length(), out)
                       : std::move(view).error();
  array.release(&array);
  return status;
}

Status RowKeys::read(std::span<const uint64_t> rows, KeyBuffer* out) const {
  // A step's columns are in memory as Arrow arrays, then as keys.
  constexpr size_t kStep = 65536;
  out->reset(encoder_.fixed_width());
  for (size_t at = 0; at < rows.size(); at += kStep) {
    Column column = rows_->make_output();
    NIMBLE_RETURN_IF_ERROR(rows_->take(
        rows.subspan(at, std::min(kStep, rows.size() - at)), 1, &column));
    NIMBLE_RETURN_IF_ERROR(append_keys(std::move(column), out));
  }
  return Status::ok();
}

Status RowKeys::read_range(RowRange rows, KeyBuffer* out) const {
  Column column = rows_->make_output();
  NIMBLE_RETURN_IF_ERROR(rows_->read_ranges({&rows, 1}, 1, &column));
  return append_keys(std::move(column), out);
}

// --------------------------------------------------------------- single rows

Status RowKeys::append_part(const RowLocation& at, size_t part,
                            ByteBuffer* key) const {
  const Part& p = parts_[part];
  StreamValue stored;
  FlatValue value;
  NIMBLE_RETURN_IF_ERROR(at.find_value(p.column.values, &stored));
  NIMBLE_RETURN_IF_ERROR(value.read(at, p.column, stored));
  return encoder_.encode_scalar(
      part,
      value.is_null()
          ? KeyScalar::null()
          : KeyScalar::from_value(p.field, {value.data(), value.size()}),
      key);
}

Result<int> RowKeys::compare_at(const RowLocation& at, ByteSpan target) const {
  ThreadScratch<ByteBuffer, RowKeys> key;
  int sign = 0;
  // The columns behind the first that decides are not decoded.
  for (size_t i = 0; i < parts_.size() && sign == 0; ++i) {
    NIMBLE_RETURN_IF_ERROR(append_part(at, i, &*key));
    const size_t size = std::min(key->size(), target.size());
    sign = compare_bytes(key->span(), target.first(size));
  }
  if (sign == 0 && key->size() < target.size()) sign = -1;
  return sign;
}

Result<int> RowKeys::compare(uint64_t row, ByteSpan target) const {
  if (!parts_.empty()) {
    NIMBLE_ASSIGN_OR_RETURN(const RowLocation at,
                            RowLocation::find(rows_->file(), row));
    return compare_at(at, target);
  }
  KeyBuffer keys;
  NIMBLE_RETURN_IF_ERROR(read_range({row, row + 1}, &keys));
  return compare_bytes(keys.key(0), target);
}

Result<LowerBound> RowKeys::find(uint64_t begin, uint64_t end,
                                 ByteSpan target) const {
  const bool tried = !parts_.empty() && end - begin <= kMaxTried;
  const uint64_t first = begin;
  KeyBuffer keys;
  if (!tried) NIMBLE_RETURN_IF_ERROR(read_range({begin, end}, &keys));
  RowLocation at;
  LowerBound out{end, false};
  while (begin < out.row) {
    const uint64_t middle = begin + (out.row - begin) / 2;
    int sign = 0;
    if (tried) {
      if (!at.move_to(middle)) {
        NIMBLE_ASSIGN_OR_RETURN(at, RowLocation::find(rows_->file(), middle));
      }
      NIMBLE_ASSIGN_OR_RETURN(sign, compare_at(at, target));
    } else {
      sign = compare_bytes(keys.key(middle - first), target);
    }
    if (sign < 0) {
      begin = middle + 1;
    } else {
      out = {middle, sign == 0};
    }
  }
  return out;
}

void RowKeys::prefetch(uint64_t begin, uint64_t end) const {
  if (parts_.empty() || end - begin > kMaxTried) return;
  const auto at = RowLocation::find(rows_->file(), begin + (end - begin) / 2);
  if (!at) return;  // find() says why
  for (const Part& p : parts_) {
    StreamValue value;
    if (at->find_value(p.column.values, &value)) value.prefetch();
  }
}

}  // namespace nimble
