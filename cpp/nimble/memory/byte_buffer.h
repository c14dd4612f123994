// ByteBuffer: growable output bytes, with functions that append fixed-width and
// variable-width values. Counterpart of ByteReader. Not thread-safe.
#pragma once

#include <string_view>
#include <type_traits>
#include <vector>

#include "nimble/base/bytes.h"

namespace nimble {

class ByteBuffer {
 public:
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  const uint8_t* data() const { return bytes_.data(); }
  uint8_t* data() { return bytes_.data(); }
  ByteSpan span() const { return bytes_; }
  void clear() { bytes_.clear(); }
  void reserve(size_t n) { bytes_.reserve(n); }
  void resize(size_t n) { bytes_.resize(n); }
  std::vector<uint8_t> take() { return std::move(bytes_); }

  // Appends n zeroed bytes. Returns their address, which is valid until the
  // next growth.
  uint8_t* extend(size_t n) {
    bytes_.resize(bytes_.size() + n);
    return bytes_.data() + bytes_.size() - n;
  }
  void put_bytes(ByteSpan b) {
    bytes_.insert(bytes_.end(), b.begin(), b.end());
  }
  void put_bytes(const void* p, size_t n) {
    put_bytes(ByteSpan(static_cast<const uint8_t*>(p), n));
  }
  template <class T>
    requires std::is_arithmetic_v<T>
  void put(T v) {
    store<T>(extend(sizeof v), v);
  }
  void put_u8(uint8_t v) { bytes_.push_back(v); }
  // LEB128: seven bits per byte, least significant first, at most ten bytes.
  void put_varint(uint64_t v) {
    while (v >= 0x80) {
      bytes_.push_back(static_cast<uint8_t>(v | 0x80));
      v >>= 7;
    }
    bytes_.push_back(static_cast<uint8_t>(v));
  }
  // Appends a varint length, then the bytes.
  void put_sized(ByteSpan b) {
    put_varint(b.size());
    put_bytes(b);
  }
  void align(size_t alignment) {
    bytes_.resize(round_up(bytes_.size(), alignment));
  }

 private:
  std::vector<uint8_t> bytes_;
};

}  // namespace nimble
