#include "nimble/lookup/row_keys.h"

#include <algorithm>
#include <cstring>

#include "nimble/base/scratch.h"
#include "nimble/stripe/value_reader.h"

namespace nimble {
namespace {

// More rows than this are decoded together rather than tried one by one: where
// single values cost a block each, so does the search.
constexpr uint64_t kMaxTried = 32;

KeyScalar scalar_of(const Field& field, const uint8_t* value) {
  if (field.logical == Logical::kFixedBinary) {
    return KeyScalar::from_bytes({value, field.width});
  }
  if (field.width > 8) {
    std::array<uint8_t, 32> wide{};
    wide.fill((value[field.width - 1] & 0x80) != 0 ? 0xff : 0);
    std::memcpy(wide.data(), value, field.width);
    return KeyScalar::from_wide(wide);
  }
  uint64_t bits = 0;
  std::memcpy(&bits, value, field.width);
  const uint32_t unused = 64 - 8 * field.width;
  return field.is_signed ? KeyScalar::from_int(
                               static_cast<int64_t>(bits << unused) >> unused)
                         : KeyScalar::from_uint(bits);
}

bool is_plain(const Field& field) {
  if (field.layout == Layout::kBytes) return true;
  return field.layout == Layout::kFixed && field.width <= 32 &&
         field.logical != Logical::kFloat &&
         field.logical != Logical::kInterval;
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
    const Field& field = rows_->schema().children[i];
    const SchemaNode& node = file.plan().node(rows_->node(i));
    if (specs[i].path.size() != 1 || rows_->is_nested(i) || !is_plain(field) ||
        node.values == kNoStream) {
      parts_.clear();
      return;
    }
    parts_.push_back({node.validity, node.values, field});
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

// A row of a mapped file.
struct RowKeys::Place {
  const OpenFile* file = nullptr;
  GroupHandle group;
  const StripeView* stripe = nullptr;
  uint64_t row = 0;  // of the stripe

  // False where a file row is not in this stripe.
  bool move_to(uint64_t file_row) {
    if (stripe == nullptr || file_row - stripe->first_row >= stripe->rows) {
      return false;
    }
    row = file_row - stripe->first_row;
    return true;
  }

  // The decoder of a stream's value of the row, and where its bytes are.
  Result<const Decoder*> value(uint32_t stream, SegmentBody* body,
                               uint32_t* local) const {
    if (row >= stripe->values[stream]) {
      return Status::corrupt("stream " + std::to_string(stream) + " has only " +
                             std::to_string(stripe->values[stream]) +
                             " values");
    }
    const auto index = static_cast<uint32_t>(row / kSegmentValues);
    const uint32_t segment = stripe->first_segment[stream] + index;
    *body = {file->file().mapped() + stripe->segment_offsets[segment],
             stripe->segment_sizes[segment], true, &file->stats()->touches};
    *local = static_cast<uint32_t>(row % kSegmentValues);
    return group->decoder(*stripe, stream, index,
                          file->plan().streams()[stream]);
  }
  Status decode(uint32_t stream, const Output& out) const {
    SegmentBody body;
    uint32_t local = 0;
    NIMBLE_ASSIGN_OR_RETURN(const Decoder* decoder,
                            value(stream, &body, &local));
    return decoder->gather(body, &local, 1, out);
  }
};

Result<RowKeys::Place> RowKeys::place_of(uint64_t row) const {
  const OpenFile& file = rows_->file();
  NIMBLE_ASSIGN_OR_RETURN(GroupHandle group,
                          file.groups().get(file.group_of(row)));
  const StripeView& stripe = group->view().stripe_of(row);
  return Place{&file, std::move(group), &stripe, row - stripe.first_row};
}

Status RowKeys::append_part(const Place& place, size_t part,
                            ByteBuffer* key) const {
  const Part& p = parts_[part];
  alignas(64) uint8_t value[32 + AlignedBuffer::kSlack];
  Output to;
  to.data = value;
  if (p.validity != kNoStream && place.stripe->values[p.validity] > 0) {
    NIMBLE_RETURN_IF_ERROR(place.decode(p.validity, to));
    if ((value[0] & 1) == 0) {
      return encoder_.encode_scalar(part, KeyScalar::null(), key);
    }
  }
  if (p.field.layout == Layout::kFixed) {
    NIMBLE_RETURN_IF_ERROR(place.decode(p.values, to));
    return encoder_.encode_scalar(part, scalar_of(p.field, value), key);
  }
  struct PartValue;
  Scratch<ValueBytes, PartValue> bytes;
  NIMBLE_RETURN_IF_ERROR(place.decode(p.values, bytes->output()));
  return encoder_.encode_scalar(part, KeyScalar::from_bytes(bytes->span()),
                                key);
}

Result<int> RowKeys::compare_at(const Place& place, ByteSpan target) const {
  struct RowKey;
  Scratch<ByteBuffer, RowKey> key;
  int sign = 0;
  // The columns behind the first that decides are not decoded.
  for (size_t i = 0; i < parts_.size() && sign == 0; ++i) {
    NIMBLE_RETURN_IF_ERROR(append_part(place, i, &*key));
    const size_t size = std::min(key->size(), target.size());
    sign = compare_bytes(key->span(), target.first(size));
  }
  if (sign == 0 && key->size() < target.size()) sign = -1;
  return sign;
}

Result<int> RowKeys::compare(uint64_t row, ByteSpan target) const {
  if (!parts_.empty()) {
    NIMBLE_ASSIGN_OR_RETURN(const Place place, place_of(row));
    return compare_at(place, target);
  }
  KeyBuffer keys;
  NIMBLE_RETURN_IF_ERROR(read_range({row, row + 1}, &keys));
  return compare_bytes(keys.key(0), target);
}

Result<KeyPlace> RowKeys::find(uint64_t begin, uint64_t end,
                               ByteSpan target) const {
  const bool tried = !parts_.empty() && end - begin <= kMaxTried;
  const uint64_t first = begin;
  KeyBuffer keys;
  if (!tried) NIMBLE_RETURN_IF_ERROR(read_range({begin, end}, &keys));
  Place place;
  KeyPlace out{end, false};
  while (begin < out.row) {
    const uint64_t middle = begin + (out.row - begin) / 2;
    int sign = 0;
    if (tried) {
      if (!place.move_to(middle)) {
        NIMBLE_ASSIGN_OR_RETURN(place, place_of(middle));
      }
      NIMBLE_ASSIGN_OR_RETURN(sign, compare_at(place, target));
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
  const auto place = place_of(begin + (end - begin) / 2);
  if (!place) return;  // find() says why
  for (const Part& p : parts_) {
    SegmentBody body;
    uint32_t local = 0;
    const auto decoder = place->value(p.values, &body, &local);
    if (decoder) (*decoder)->prefetch(body, local);
  }
}

}  // namespace nimble
