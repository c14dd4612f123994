#include "nimble/stripe/value_reader.h"

#include <algorithm>

namespace nimble {

void StreamValue::prefetch_decoder() const {
  constexpr size_t kDecoderBytes = 256;  // size of most decoders
  const auto* p = reinterpret_cast<const uint8_t*>(decoder);
  for (size_t at = 0; at < kDecoderBytes; at += 64) __builtin_prefetch(p + at);
}

Result<RowLocation> RowLocation::find(const OpenFile& file, uint64_t row) {
  RowLocation out;
  out.file_ = &file;
  out.map_ = file.file().mapped();
  out.touches_ = &file.stats()->touches;
  NIMBLE_ASSIGN_OR_RETURN(out.group_, file.groups().get(file.group_of(row)));
  out.stripe_ = &out.group_->view().stripe_of(row);
  out.row_ = row - out.stripe_->first_row;
  return out;
}

bool RowLocation::move_to(uint64_t row) {
  if (stripe_ == nullptr || row - stripe_->first_row >= stripe_->rows) {
    return false;
  }
  row_ = row - stripe_->first_row;
  return true;
}

Status RowLocation::no_value(uint32_t stream) const {
  return Status::corrupt("stream " + std::to_string(stream) + " has only " +
                         std::to_string(stripe_->values[stream]) + " values");
}

Status RowLocation::make_decoder(uint32_t stream, uint32_t index,
                                 const Decoder** out) const {
  NIMBLE_ASSIGN_OR_RETURN(*out,
                          group_->decoder(*stripe_, stream, index,
                                          file_->plan().streams()[stream]));
  return Status::ok();
}

Status RowLocation::decode(uint32_t stream, uint64_t begin, uint64_t end,
                           Output out) const {
  const uint32_t width = file_->plan().streams()[stream].width;
  while (begin < end) {
    StreamValue first;
    NIMBLE_RETURN_IF_ERROR(find_value(stream, begin, &first));
    const auto n = static_cast<uint32_t>(
        std::min<uint64_t>(end - begin, kSegmentValues - first.row));
    if (n > first.decoder->size() - first.row) {
      return Status::corrupt("stream " + std::to_string(stream) +
                             " has no value " + std::to_string(end - 1));
    }
    NIMBLE_RETURN_IF_ERROR(
        first.decoder->decode(first.body, first.row, first.row + n, out));
    if (out.data != nullptr) out.data += uint64_t{n} * width;
    out.bit_offset += n;
    begin += n;
  }
  return Status::ok();
}

std::optional<FlatColumn> FlatColumn::of(const StreamPlan& plan,
                                         uint32_t node) {
  const SchemaNode& n = plan.node(node);
  const Field& f = *n.field;
  const bool is_fixed =
      f.layout == Layout::kFixed || f.layout == Layout::kDictionary;
  if (n.values == kNoStream || (is_fixed && f.width > FlatValue::kMaxWidth) ||
      (!is_fixed && f.layout != Layout::kBool && f.layout != Layout::kBytes)) {
    return std::nullopt;
  }
  return FlatColumn{f.layout, f.width, n.validity, n.values};
}

Status FlatPlace::find(const RowLocation& at, const FlatColumn& column,
                       FlatPlace* out) {
  NIMBLE_RETURN_IF_ERROR(at.find_value(column.values, &out->values));
  if (!at.has_values(column.validity)) return Status::ok();
  return at.find_value(column.validity, &out->validity);
}

Status FlatValue::read(const RowLocation& at, const FlatColumn& column,
                       const StreamValue& values) {
  FlatPlace place{values, {}};
  if (at.has_values(column.validity)) {
    NIMBLE_RETURN_IF_ERROR(at.find_value(column.validity, &place.validity));
  }
  return read(column, place);
}

Status FlatValue::read(const FlatColumn& column, const FlatPlace& place) {
  data_ = nullptr;
  if (place.validity.decoder != nullptr) {
    uint64_t valid = 0;
    NIMBLE_RETURN_IF_ERROR(place.validity.read(&valid));
    if ((valid & 1) == 0) return Status::ok();
  }
  if (column.layout == Layout::kBytes) {
    ThreadScratch<ValueBytes, FlatValue>& bytes = bytes_.emplace();
    NIMBLE_RETURN_IF_ERROR(place.values.read(bytes->output()));
    size_ = bytes->size();
    data_ = size_ > 0 ? bytes->data() : fixed_;  // never null
    return Status::ok();
  }
  data_ = fixed_;
  const bool is_bool = column.layout == Layout::kBool;
  size_ = is_bool ? 1 : column.width;
  if (size_ > 8) {
    Output to;
    to.data = fixed_;
    return place.values.read(to);
  }
  uint64_t bits = 0;
  NIMBLE_RETURN_IF_ERROR(place.values.read(&bits));
  store(fixed_, is_bool ? bits & 1 : bits);
  return Status::ok();
}

// ---------------------------------------------------------------------- lists

std::optional<ListColumn> ListColumn::of(const StreamPlan& plan,
                                         uint32_t node) {
  const SchemaNode& n = plan.node(node);
  const Layout layout = n.field->layout;
  if (layout != Layout::kList && layout != Layout::kFixedList) {
    return std::nullopt;
  }
  const auto items = FlatColumn::of(plan, n.children[0]);
  if (!items) return std::nullopt;
  ListColumn out{n.validity, n.ends, 0, *items};
  if (layout == Layout::kFixedList) {
    out.size = static_cast<uint64_t>(n.field->list_size);
  }
  return out;
}

Status ListValue::find(const RowLocation& at, const ListColumn& column) {
  if (at.has_values(column.validity)) {
    NIMBLE_RETURN_IF_ERROR(at.find_value(column.validity, &valid_));
  }
  if (column.ends == kNoStream) return Status::ok();
  NIMBLE_RETURN_IF_ERROR(at.find_value(column.ends, &last_));
  if (at.row() == 0) return Status::ok();
  return at.find_value(column.ends, at.row() - 1, &before_);
}

void ListValue::prefetch_decoders() const {
  for (const StreamValue* v : {&valid_, &last_}) {
    if (v->decoder != nullptr) v->prefetch_decoder();
  }
}

void ListValue::prefetch() const {
  for (const StreamValue* v : {&valid_, &before_, &last_}) {
    if (v->decoder != nullptr) v->prefetch();
  }
}

Status ListValue::find_items(const RowLocation& at, const ListColumn& column) {
  alignas(8) uint8_t raw[2 * 8 + AlignedBuffer::kSlack] = {};
  Output to;
  to.data = raw;
  if (valid_.decoder != nullptr) {
    uint64_t valid = 0;
    NIMBLE_RETURN_IF_ERROR(valid_.read(&valid));
    is_null_ = (valid & 1) == 0;
    if (is_null_) return Status::ok();
  }
  if (column.ends == kNoStream) {
    if (column.size > 0 && at.row() >= UINT64_MAX / column.size) {
      return Status::corrupt("items past 2^64");
    }
    begin_ = at.row() * column.size;
    end_ = begin_ + column.size;
  } else if (before_.decoder == last_.decoder) {
    const uint32_t rows[] = {before_.row, last_.row};
    NIMBLE_RETURN_IF_ERROR(last_.decoder->gather(last_.body, rows, 2, to));
    begin_ = load<uint64_t>(raw);
    end_ = load<uint64_t>(raw + 8);
  } else {
    if (before_.decoder != nullptr) {
      NIMBLE_RETURN_IF_ERROR(before_.read(&begin_));
    }
    NIMBLE_RETURN_IF_ERROR(last_.read(&end_));
  }
  if (begin_ > end_ || end_ > at.num_values(column.items.values)) {
    return Status::corrupt("a list has items " + std::to_string(begin_) +
                           " to " + std::to_string(end_) +
                           ", but the stripe has only " +
                           std::to_string(at.num_values(column.items.values)));
  }
  if (begin_ == end_) return Status::ok();
  NIMBLE_RETURN_IF_ERROR(
      at.find_value(column.items.values, begin_, &first_item_));
  first_item_.prefetch_decoder();
  first_item_.prefetch();
  return Status::ok();
}

Status ListValue::read(const RowLocation& at, const ListColumn& column) {
  if (is_null_ || begin_ == end_) return Status::ok();
  const FlatColumn& items = column.items;
  Output to;
  if (at.has_values(items.validity)) {
    validity_.resize(size() / 8 + 1);
    to.data = validity_.data();
    NIMBLE_RETURN_IF_ERROR(at.decode(items.validity, begin_, end_, to));
  }
  if (items.layout == Layout::kBytes) {
    bytes_.wide = true;
    to.bytes = &bytes_;
  } else {
    values_.resize(items.layout == Layout::kBool ? size() / 8 + 1
                                                 : size() * items.width);
    to.data = values_.data();
  }
  return at.decode(items.values, begin_, end_, to);
}

ByteSpan ListValue::item(const ListColumn& column, uint64_t i) {
  const FlatColumn& items = column.items;
  if (items.layout == Layout::kBytes) {
    const uint64_t begin = bytes_.begin_of(i), end = bytes_.end_of(i);
    static const uint8_t nothing = 0;
    return {end > begin ? bytes_.data.data() + begin : &nothing, end - begin};
  }
  if (items.layout == Layout::kBool) {
    bit_ = get_bit(values_.data(), i) ? 1 : 0;
    return {&bit_, 1};
  }
  return {values_.data() + i * items.width, items.width};
}

}  // namespace nimble
