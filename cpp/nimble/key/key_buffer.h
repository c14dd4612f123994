// KeyBuffer: encoded keys of many rows, one after the other. Either all keys
// have the same width, or offsets tell where each key begins. Not thread-safe.
#pragma once

#include <cassert>
#include <vector>

#include "nimble/key/big_endian.h"
#include "nimble/memory/aligned_buffer.h"

namespace nimble {

class KeyBuffer {
 public:
  KeyBuffer() = default;
  explicit KeyBuffer(size_t fixed_width) : fixed_width_(fixed_width) {}

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // The width of all keys, or 0 if keys have offsets. Encoded keys are never
  // empty.
  size_t fixed_width() const { return fixed_width_; }
  // AlignedBuffer::kSlack bytes after the last key may be read.
  const uint8_t* data() const { return bytes_.data(); }
  uint8_t* data() { return bytes_.data(); }
  size_t num_bytes() const { return bytes_.size(); }

  uint64_t offset(size_t i) const {
    return fixed_width_ != 0 ? i * fixed_width_ : i == 0 ? 0 : ends_[i - 1];
  }
  ByteSpan key(size_t i) const {
    const uint64_t begin = offset(i);
    return {bytes_.data() + begin, static_cast<size_t>(offset(i + 1) - begin)};
  }

  // Reserves memory for `num_bytes` bytes of `num_keys` keys in total. The
  // system provides it when it is first written.
  void reserve(size_t num_bytes, size_t num_keys) {
    bytes_.reserve(num_bytes);
    if (fixed_width_ == 0) ends_.reserve(num_keys);
  }
  // Removes the keys, but keeps the memory and the layout.
  void clear() {
    bytes_.clear();
    ends_.clear();
    size_ = 0;
  }
  void reset(size_t fixed_width) {
    clear();
    fixed_width_ = fixed_width;
  }
  void push_back(ByteSpan key) {
    assert(fixed_width_ == 0 || key.size() == fixed_width_);
    bytes_.append(key.data(), key.size());
    if (fixed_width_ == 0) ends_.push_back(bytes_.size());
    ++size_;
  }
  // Appends rows [begin, end) of a buffer.
  // REQUIRES: both buffers have the same layout.
  void append(const KeyBuffer& other, size_t begin, size_t end) {
    assert(fixed_width_ == other.fixed_width_);
    const uint64_t from = other.offset(begin), to = other.offset(end);
    const uint64_t base = bytes_.size();
    if (to > from) bytes_.append(other.data() + from, to - from);
    if (fixed_width_ == 0) {
      for (size_t i = begin; i < end; ++i) {
        ends_.push_back(base + (other.ends_[i] - from));
      }
    }
    size_ += end - begin;
  }
  // Appends the given rows of a buffer, in this order.
  // REQUIRES: both buffers have the same layout.
  void append_rows(const KeyBuffer& other, const uint64_t* rows, size_t count);
  // Appends `count` uninitialized keys of the fixed width. Returns their
  // address, which is valid until the next growth.
  // REQUIRES: fixed_width() != 0.
  uint8_t* extend_fixed(size_t count) {
    const size_t at = bytes_.size();
    bytes_.resize(at + count * fixed_width_);
    size_ += count;
    return bytes_.data() + at;
  }
  // Appends `count` uninitialized keys of these sizes.
  // REQUIRES: fixed_width() == 0.
  void extend_sized(const uint64_t* sizes, size_t count) {
    uint64_t end = bytes_.size();
    for (size_t i = 0; i < count; ++i) ends_.push_back(end += sizes[i]);
    bytes_.resize(end);
    size_ += count;
  }

 private:
  AlignedBuffer bytes_;
  std::vector<uint64_t> ends_;
  size_t fixed_width_ = 0;
  size_t size_ = 0;
};

}  // namespace nimble
