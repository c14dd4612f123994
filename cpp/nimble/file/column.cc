#include "nimble/file/column.h"

#include <algorithm>
#include <bit>

namespace nimble {

void set_bits(uint8_t* bits, uint64_t begin, uint64_t count, bool value) {
  if (count == 0) return;  // `bits` may be null
  uint64_t at = begin;
  const uint64_t end = begin + count;
  for (; at < end && at % 8 != 0; ++at) set_bit(bits, at, value);
  const uint64_t whole = (end - at) / 8;
  std::memset(bits + at / 8, value ? 0xff : 0, whole);
  for (at += whole * 8; at < end; ++at) set_bit(bits, at, value);
}

void copy_bits(const uint8_t* from, uint64_t from_bit, uint8_t* to,
               uint64_t to_bit, uint64_t count) {
  if (count == 0) return;
  uint64_t i = 0;
  for (; i < count && (to_bit + i) % 8 != 0; ++i) {
    set_bit(to, to_bit + i, get_bit(from, from_bit + i));
  }
  const uint32_t shift = (from_bit + i) % 8;
  const uint8_t* src = from + (from_bit + i) / 8;
  uint8_t* dst = to + (to_bit + i) / 8;
  const uint64_t whole = (count - i) / 8;
  if (shift == 0) {
    std::memcpy(dst, src, whole);
  } else {
    for (uint64_t b = 0; b < whole; ++b) {
      dst[b] = static_cast<uint8_t>((src[b] >> shift) |
                                    (src[b + 1] << (8 - shift)));
    }
  }
  for (i += whole * 8; i < count; ++i) {
    set_bit(to, to_bit + i, get_bit(from, from_bit + i));
  }
}

uint64_t count_set_bits(const uint8_t* bits, uint64_t begin, uint64_t count) {
  uint64_t n = 0, i = 0;
  for (; i < count && (begin + i) % 8 != 0; ++i) n += get_bit(bits, begin + i);
  const uint8_t* p = bits + (begin + i) / 8;
  for (; i + 64 <= count; i += 64, p += 8) {
    n += static_cast<uint64_t>(std::popcount(load<uint64_t>(p)));
  }
  for (; i < count; ++i) n += get_bit(bits, begin + i);
  return n;
}

Column::Column(const Field& field, bool wide) : field_(&field), wide_(wide) {
  bytes.wide = wide || field.wide_offsets || field.is_view;
  if (field.layout == Layout::kList) ends.push_back(0);
  if (field.layout == Layout::kRunEnd) {
    children.emplace_back(field.children[1], wide);
  } else {
    for (const Field& child : field.children) children.emplace_back(child, wide);
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
  for (const Column& c : children) n += c.data_bytes();
  return n;
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
  set_bits(validity.data(), 0, length_, true);
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
