// ByteReader: a bounded cursor over untrusted bytes. Failures are sticky: after
// a failure every read returns zero or empty, and ok() is false. So callers can
// read several values and check once. Lengths are compared by subtraction,
// which cannot overflow. Not thread-safe.
#pragma once

#include <string>
#include <type_traits>

#include "nimble/base/bytes.h"
#include "nimble/base/status.h"

namespace nimble {

class ByteReader {
 public:
  explicit ByteReader(ByteSpan bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  size_t position() const { return position_; }
  size_t remaining() const { return ok_ ? bytes_.size() - position_ : 0; }
  void fail() { ok_ = false; }

  template <class T>
    requires std::is_arithmetic_v<T>
  T get() {
    if (remaining() < sizeof(T)) {
      ok_ = false;
      return T{};
    }
    T v = load<T>(bytes_.data() + position_);
    position_ += sizeof(T);
    return v;
  }
  uint8_t get_u8() { return get<uint8_t>(); }
  uint64_t get_varint() {
    uint64_t v = 0;
    for (uint32_t shift = 0; shift < 64; shift += 7) {
      const uint8_t b = get_u8();
      if (!ok_ || (shift == 63 && b > 1)) break;
      v |= static_cast<uint64_t>(b & 0x7f) << shift;
      if (b < 0x80) return v;
    }
    ok_ = false;
    return 0;
  }
  // Returns a view of the bytes passed to the constructor.
  ByteSpan get_bytes(uint64_t n) {
    if (n > remaining()) {
      ok_ = false;
      return {};
    }
    ByteSpan out = bytes_.subspan(position_, static_cast<size_t>(n));
    position_ += static_cast<size_t>(n);
    return out;
  }
  ByteSpan get_sized() { return get_bytes(get_varint()); }

  // Returns kCorrupt after a failure. `what` names the object that was read:
  // "bit-packed header".
  Status status(std::string_view what) const {
    if (ok_) return Status::ok();
    return Status::corrupt(std::string(what) + " is cut short at byte " +
                           std::to_string(position_) + " of " +
                           std::to_string(bytes_.size()));
  }

 private:
  ByteSpan bytes_;
  size_t position_ = 0;
  bool ok_ = true;
};

}  // namespace nimble
