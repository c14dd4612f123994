#include "nimble/key/key_buffer.h"

namespace nimble {
namespace {

// Rows are anywhere in memory, so keys are prefetched this many rows ahead.
constexpr size_t kPrefetchRows = 16;
constexpr size_t kCopyStep = 16;
constexpr size_t kLongKey = 256;  // above this, memcpy is faster
static_assert(kCopyStep <= AlignedBuffer::kSlack);

// May read and write up to kCopyStep - 1 bytes past the key.
void copy_key(uint8_t* to, const uint8_t* from, size_t size) {
  if (size > kLongKey) {
    std::memcpy(to, from, size);
    return;
  }
  for (size_t at = 0; at < size; at += kCopyStep) {
    std::memcpy(to + at, from + at, kCopyStep);
  }
}

}  // namespace

void KeyBuffer::append_rows(const KeyBuffer& other, const uint64_t* rows,
                            size_t count) {
  assert(fixed_width_ == other.fixed_width_ && this != &other);
  const size_t width = fixed_width_;
  const uint8_t* const keys = other.data();
  if (width != 0) {
    uint8_t* to = extend_fixed(count);
    for (size_t i = 0; i < count; ++i, to += width) {
      if (i + kPrefetchRows < count) {
        __builtin_prefetch(keys + rows[i + kPrefetchRows] * width);
      }
      copy_key(to, keys + rows[i] * width, width);
    }
    return;
  }
  const size_t first = ends_.size();
  size_t at = bytes_.size();
  uint64_t end = at;
  ends_.resize(first + count);
  for (size_t i = 0; i < count; ++i) {
    if (i + kPrefetchRows < count) {
      __builtin_prefetch(&other.ends_[rows[i + kPrefetchRows]]);
    }
    const uint64_t from = other.offset(rows[i]);
    __builtin_prefetch(keys + from);
    ends_[first + i] = end += other.ends_[rows[i]] - from;
  }
  bytes_.resize(end);
  size_ += count;
  for (size_t i = 0; i < count; ++i) {
    const ByteSpan key = other.key(rows[i]);
    copy_key(bytes_.data() + at, key.data(), key.size());
    at += key.size();
  }
}

}  // namespace nimble
