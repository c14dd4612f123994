// ThriftReader: reads values of Thrift's compact protocol from untrusted bytes,
// as far as Parquet's metadata needs them. After a failure, all further reads
// fail, as in ByteReader. Does not allocate memory. Lists cannot have more
// elements than there are bytes left. Not thread-safe.
#pragma once

#include <string>

#include "nimble/base/byte_reader.h"

namespace nimble {

class ThriftReader {
 public:
  enum Type : uint8_t {
    kStop = 0,
    kTrue = 1,
    kFalse = 2,
    kByte = 3,
    kI16 = 4,
    kI32 = 5,
    kI64 = 6,
    kDouble = 7,
    kBinary = 8,
    kList = 9,
    kSet = 10,
    kMap = 11,
    kStruct = 12,
    kUuid = 13,
  };

  explicit ThriftReader(ByteSpan bytes) : reader_(bytes) {}

  bool ok() const { return reader_.ok(); }
  size_t position() const { return reader_.position(); }
  Status status(std::string_view what) const { return reader_.status(what); }
  void fail() { reader_.fail(); }

  // Calls on_field(id, type) for each field of a struct. If on_field() returns
  // true, it has read the value. If it returns false, the value is skipped.
  template <class F>
  void read_struct(F&& on_field) {
    if (++depth_ > kMaxDepth) reader_.fail();
    int64_t id = 0;
    while (ok()) {
      const uint8_t head = reader_.get_u8();
      const auto type = static_cast<Type>(head & 0x0f);
      if (!ok() || type == kStop) break;
      id = head >> 4 != 0 ? id + (head >> 4) : get_zigzag();
      if (id < INT16_MIN || id > INT16_MAX) reader_.fail();
      if (!ok()) break;
      if (!on_field(id, type)) skip(type);
    }
    --depth_;
  }
  // Calls on_element(type) for each element. on_element() must read the
  // element.
  template <class F>
  void read_list(F&& on_element) {
    const uint8_t head = reader_.get_u8();
    const auto type = static_cast<Type>(head & 0x0f);
    const uint64_t count = head >> 4 == 15 ? reader_.get_varint() : head >> 4;
    if (count > reader_.remaining()) reader_.fail();
    for (uint64_t i = 0; i < count && ok(); ++i) on_element(type);
  }

  int64_t get_zigzag() {
    const uint64_t v = reader_.get_varint();
    return static_cast<int64_t>((v >> 1) ^ (~(v & 1) + 1));
  }
  // Reads an i16, i32 or i64 into `out`, if the field has such a type.
  template <class T>
  bool get_int(Type type, T* out) {
    if (type != kI16 && type != kI32 && type != kI64) return false;
    *out = static_cast<T>(get_zigzag());
    return true;
  }
  bool get_bool(Type type, bool* out) {
    if (type != kTrue && type != kFalse) return false;
    *out = type == kTrue;
    return true;
  }
  ByteSpan get_binary() { return reader_.get_sized(); }

  // Skips the value of a field.
  void skip(Type type);
  // Skips an element of a list. Unlike a field, a bool in a list takes a byte.
  void skip_element(Type type);

 private:
  static constexpr int kMaxDepth = 32;

  ByteReader reader_;
  int depth_ = 0;
};

}  // namespace nimble
