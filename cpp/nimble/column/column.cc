#include "nimble/column/column.h"

namespace nimble {

Column::Column(const Field& field, bool wide) : field_(&field), wide_(wide) {
  bytes.wide = wide || field.wide_offsets || field.is_view;
  if (field.layout == Layout::kList) ends.push_back(0);
  if (field.layout == Layout::kRunEnd) {
    children.emplace_back(field.children[1], wide);
  } else {
    children.reserve(field.children.size());
    for (const Field& child : field.children)
      children.emplace_back(child, wide);
  }
}

uint64_t Column::memory_bytes() const {
  uint64_t n = validity.capacity() + values.capacity() + bytes.data.capacity() +
               bytes.offsets.capacity() + ends.capacity() * 8;
  for (const Column& c : children) n += c.memory_bytes();
  return n;
}

uint64_t Column::data_bytes() const {
  uint64_t n = validity.size() + values.size() + bytes.data.size() +
               bytes.offsets.size() + ends.size() * 8;
  if (is_without_bytes()) n += length_ / 8;
  for (const Column& c : children) n += c.data_bytes();
  return n;
}

bool Column::is_without_bytes() const {
  switch (field_->layout) {
    case Layout::kNull:
    case Layout::kRunEnd:
      return true;
    case Layout::kFixed:
      return field_->width == 0;
    case Layout::kFixedList:
      return field_->list_size == 0;
    case Layout::kStruct:
      return children.empty();
    default:
      return false;
  }
}

void Column::clear() {
  validity.clear();
  values.clear();
  bytes.data.clear();
  bytes.offsets.clear();
  bytes.count = 0;
  ends.clear();
  if (field_->layout == Layout::kList) ends.push_back(0);
  for (Column& c : children) c.clear();
  length_ = null_count_ = 0;
}

void Column::ensure_validity() {
  if (validity.size() > 0) return;
  validity.resize(length_ / 8 + 1);
  fill_bits(validity.data(), 0, length_, true);
}

uint8_t* Column::extend_values(uint64_t n) {
  const size_t at = length_ * field_->width;
  values.resize(at + n * field_->width);
  return values.data() + at;
}

uint8_t* Column::extend_bits(uint64_t n) {
  values.resize((length_ + n) / 8 + 1);
  return values.data();
}

void Column::set_external_values(const uint8_t* data,
                                 std::shared_ptr<const void> owner) {
  external_ = data;
  external_owner_ = std::move(owner);
}

}  // namespace nimble
