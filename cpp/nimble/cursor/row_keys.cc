#include "nimble/cursor/row_keys.h"

#include <algorithm>

namespace nimble {
namespace {

// If there are more rows than this, a search decodes them together. Searching
// one by one may decode a whole block for each step.
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
  // Limits the memory: a step has its columns as Arrow arrays, then as keys.
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

Status RowKeys::read_one(uint64_t row, ByteBuffer* key) const {
  key->clear();
  if (parts_.empty()) {
    KeyBuffer keys;
    NIMBLE_RETURN_IF_ERROR(read({&row, 1}, &keys));
    key->put_bytes(keys.key(0));
    return Status::ok();
  }
  NIMBLE_ASSIGN_OR_RETURN(const RowLocation at,
                          RowLocation::find(rows_->file(), row));
  for (size_t i = 0; i < parts_.size(); ++i) {
    NIMBLE_RETURN_IF_ERROR(append_part(at, i, key));
  }
  return Status::ok();
}

Result<int> RowKeys::compare_at(const RowLocation& at, ByteSpan target,
                                Rest rest) const {
  target = target.subspan(rest.begin);
  // A key that has bytes after the end of the target is above it.
  if (target.empty()) return rest.part == parts_.size() ? 0 : 1;
  ThreadScratch<ByteBuffer, RowKeys> key;
  int sign = 0;
  // Columns after the first one that differs are not decoded.
  for (size_t i = rest.part; i < parts_.size() && sign == 0; ++i) {
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
    return compare_at(at, target, {});
  }
  KeyBuffer keys;
  NIMBLE_RETURN_IF_ERROR(read_range({row, row + 1}, &keys));
  return compare_bytes(keys.key(0), target);
}

RowKeys::Rest RowKeys::rest_of(const KeySearch& search) const {
  Rest rest;
  const ByteSpan shared =
      search.target.first(std::min(search.shared, search.target.size()));
  while (rest.part < parts_.size()) {
    const size_t size =
        encoder_.columns()[rest.part].size_in(shared.subspan(rest.begin));
    if (size == 0) break;
    ++rest.part;
    rest.begin += size;
  }
  return rest;
}

namespace {

// For n ascending integers: how many are below a key, how many equal it, and
// whether the order is right: all lower ones first, then the equal ones.
struct Place {
  uint32_t below = 0;
  uint32_t equal = 0;
  bool ascends = true;
};

// `flip` converts stored bits to key bits, which compare as unsigned.
template <class U>
Place place_of(const uint8_t* values, uint32_t n, uint64_t flip, uint64_t key) {
  const auto value = [&](uint32_t i) {
    return static_cast<U>(load<U>(values + i * sizeof(U)) ^
                          static_cast<U>(flip));
  };
  Place out;
  for (uint32_t i = 0; i < n; ++i) {
    out.below += value(i) < static_cast<U>(key);
    out.equal += value(i) == static_cast<U>(key);
  }
  for (uint32_t i = 0; i < out.equal; ++i) {
    out.ascends &= value(out.below + i) == static_cast<U>(key);
  }
  return out;
}

// Compares the values with the integer in an encoded key. `key` points past the
// marker.
Place place_of(const KeyColumn& column, const uint8_t* key,
               const uint8_t* values, uint32_t n) {
  const uint32_t unused = 64 - 8 * column.width;
  const bool is_signed = column.kind == KeyKind::kSigned;
  const uint64_t sign = is_signed ? uint64_t{1} << (8 * column.width - 1) : 0;
  const uint64_t flip = sign ^ (column.order.descending ? ~uint64_t{0} : 0);
  const uint64_t number = head_of(key, column.width) >> unused;
  switch (column.width) {
    case 1:
      return place_of<uint8_t>(values, n, flip, number);
    case 2:
      return place_of<uint16_t>(values, n, flip, number);
    case 4:
      return place_of<uint32_t>(values, n, flip, number);
    default:
      return place_of<uint64_t>(values, n, flip, number);
  }
}

bool is_integer(const KeyColumn& column) {
  return column.kind == KeyKind::kSigned || column.kind == KeyKind::kUnsigned;
}

}  // namespace

Status RowKeys::out_of_order(uint64_t begin, uint64_t end) const {
  return Status::corrupt(rows_->file().file().name() + ": the keys of rows " +
                         std::to_string(begin) + " to " + std::to_string(end) +
                         " do not ascend as its index says");
}

Result<bool> RowKeys::narrow(const RowLocation& at, ByteSpan target,
                             Candidates* rows) const {
  const size_t part = rows->rest.part;
  if (part == parts_.size() || rows->begin == rows->end) return false;
  const KeyColumn& column = encoder_.columns()[part];
  const FlatColumn& flat = parts_[part].column;
  const ByteSpan target_rest = target.subspan(rows->rest.begin);
  const size_t size = 1 + column.width;
  if (!is_integer(column) || flat.width != column.width ||
      at.has_values(flat.validity) || target_rest.size() < size ||
      target_rest[0] != column.value_marker()) {
    return false;
  }
  alignas(64) uint8_t values[kMaxTried * 8 + AlignedBuffer::kSlack];
  Output to;
  to.data = values;
  NIMBLE_RETURN_IF_ERROR(at.decode(flat.values, at.of_stripe(rows->begin),
                                   at.of_stripe(rows->end), to));
  const Place place = place_of(column, &target_rest[1], values,
                               static_cast<uint32_t>(rows->end - rows->begin));
  if (!place.ascends) return out_of_order(rows->begin, rows->end);
  rows->begin += place.below;
  rows->end = rows->begin + place.equal;
  rows->rest = {part + 1, rows->rest.begin + size};
  return true;
}

Result<LowerBound> RowKeys::find_decoded(uint64_t begin, uint64_t end,
                                         ByteSpan target) const {
  KeyBuffer keys;
  NIMBLE_RETURN_IF_ERROR(read_range({begin, end}, &keys));
  const uint64_t first = begin;
  LowerBound out{end, false};
  while (begin < out.row) {
    const uint64_t middle = begin + (out.row - begin) / 2;
    const int sign = compare_bytes(keys.key(middle - first), target);
    if (sign < 0) {
      begin = middle + 1;
    } else {
      out = {middle, sign == 0};
    }
  }
  return out;
}

Result<LowerBound> RowKeys::find(uint64_t begin, uint64_t end,
                                 const KeySearch& search) const {
  if (parts_.empty() || end - begin > kMaxTried) {
    return find_decoded(begin, end, search.target);
  }
  if (begin == end) return LowerBound{end, false};
  const Rest shared = rest_of(search);
  Candidates rows{begin, end, shared};
  NIMBLE_ASSIGN_OR_RETURN(RowLocation at,
                          RowLocation::find(rows_->file(), begin));
  if (at.move_to(end - 1)) {  // all rows are in one stripe
    bool narrowed = true;
    while (narrowed) {
      NIMBLE_ASSIGN_OR_RETURN(narrowed, narrow(at, search.target, &rows));
    }
  }
  LowerBound out{rows.end, false};
  while (rows.begin < out.row) {
    const uint64_t middle = rows.begin + (out.row - rows.begin) / 2;
    if (!at.move_to(middle)) {
      NIMBLE_ASSIGN_OR_RETURN(at, RowLocation::find(rows_->file(), middle));
    }
    NIMBLE_ASSIGN_OR_RETURN(const int sign,
                            compare_at(at, search.target, rows.rest));
    if (sign < 0) {
      rows.begin = middle + 1;
    } else {
      out = {middle, sign == 0};
    }
  }
  if (!out.is_equal || shared.part == 0) return out;
  // The columns before `rest` were not compared, because the neighbours share
  // them with the target. In a damaged file this may be wrong, so the whole key
  // is compared here.
  ThreadScratch<ByteBuffer, RowKeys> front;
  if (!at.move_to(out.row)) {
    NIMBLE_ASSIGN_OR_RETURN(at, RowLocation::find(rows_->file(), out.row));
  }
  for (size_t i = 0; i < shared.part; ++i) {
    NIMBLE_RETURN_IF_ERROR(append_part(at, i, &*front));
  }
  if (compare_bytes(front->span(), search.target.first(shared.begin)) != 0) {
    return out_of_order(begin, end);
  }
  return out;
}

void RowKeys::prefetch(uint64_t begin, uint64_t end,
                       const KeySearch& search) const {
  if (parts_.empty() || end - begin > kMaxTried) return;
  const auto at = RowLocation::find(rows_->file(), begin + (end - begin) / 2);
  if (!at) return;  // find() reports the error
  for (size_t i = rest_of(search).part; i < parts_.size(); ++i) {
    StreamValue value;
    if (at->find_value(parts_[i].column.values, &value)) value.prefetch();
  }
}

}  // namespace nimble
