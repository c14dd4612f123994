// AlignedBuffer: growable bytes at a 64-byte boundary, not zeroed. kSlack bytes
// past capacity() may be written, so that kernels may overshoot. Exported Arrow
// arrays consist of these. Large buffers are pooled (buffer_pool.h). Not
// thread-safe.
#pragma once

#include <new>

#include "nimble/base/bytes.h"
#include "nimble/memory/buffer_pool.h"

namespace nimble {

class AlignedBuffer {
 public:
  static constexpr size_t kAlignment = 64;
  static constexpr size_t kSlack = 64;

  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t size) { resize(size); }
  AlignedBuffer(AlignedBuffer&& o) noexcept { swap(o); }
  AlignedBuffer& operator=(AlignedBuffer&& o) noexcept {
    swap(o);
    return *this;
  }
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;
  ~AlignedBuffer() { free_memory(); }

  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_);
  }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  ByteSpan span() const { return {data_, size_}; }

  // Grows at least by doubling and keeps the contents. New bytes are not
  // initialized. Throws std::bad_alloc.
  void reserve(size_t n) {
    if (n <= capacity_ && data_ != nullptr) return;
    size_t cap = capacity_ * 2 > n ? capacity_ * 2 : n;
    cap += kSlack;
    auto* p = static_cast<uint8_t*>(allocate_buffer(&cap));
    if (p == nullptr) throw std::bad_alloc();
    if (size_ > 0) std::memcpy(p, data_, size_);
    free_memory();
    data_ = p;
    capacity_ = cap - kSlack;
  }
  void resize(size_t n) {
    reserve(n);
    size_ = n;
  }
  void append(const void* p, size_t n) {
    const size_t at = size_;
    resize(size_ + n);
    if (n > 0) std::memcpy(data_ + at, p, n);
  }
  void clear() { size_ = 0; }
  void swap(AlignedBuffer& o) noexcept {
    std::swap(data_, o.data_);
    std::swap(size_, o.size_);
    std::swap(capacity_, o.capacity_);
  }

 private:
  void free_memory() {
    if (data_ != nullptr) free_buffer(data_, capacity_ + kSlack);
  }

  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace nimble
