// ValueType: the type of a stream's values, as encodings see it. Encodings only
// see bit patterns; logical types (dates, decimals, text) belong to higher
// layers.
#pragma once

#include <cstdint>

namespace nimble {

enum class ValueKind : uint8_t {
  kBool,   // bitmap, least significant bit first
  kInt,    // width 1, 2, 4 or 8; maybe two's complement
  kFloat,  // IEEE 754, width 4 or 8 (half floats are 2-byte ints)
  kFixed,  // opaque values of `width` bytes (1 .. 2^31-1); signed decimals of
           // 16 or 32 bytes: little-endian two's complement
  kBytes,  // byte strings of any length
};

struct ValueType {
  ValueKind kind = ValueKind::kInt;
  uint32_t width = 8;  // bytes per value; 0 for kBool and kBytes
  bool is_signed = false;

  bool operator==(const ValueType&) const = default;

  static ValueType boolean() { return {ValueKind::kBool, 0, false}; }
  static ValueType unsigned_int(uint32_t width) {
    return {ValueKind::kInt, width, false};
  }
  static ValueType signed_int(uint32_t width) {
    return {ValueKind::kInt, width, true};
  }
  static ValueType floating(uint32_t width) {
    return {ValueKind::kFloat, width, true};
  }
  static ValueType fixed(uint32_t width, bool is_signed = false) {
    return {ValueKind::kFixed, width, is_signed};
  }
  static ValueType bytes() { return {ValueKind::kBytes, 0, false}; }
};

}  // namespace nimble
