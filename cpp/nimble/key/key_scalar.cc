#include "nimble/key/key_scalar.h"

#include <cmath>
#include <cstring>

#include "nimble/key/value_bits.h"

namespace nimble {

KeyScalar KeyScalar::from_bool(bool v) {
  KeyScalar s;
  s.kind = Kind::kBool;
  s.boolean = v;
  return s;
}
KeyScalar KeyScalar::from_int(int64_t v) {
  KeyScalar s;
  s.kind = Kind::kInt;
  s.i = v;
  return s;
}
KeyScalar KeyScalar::from_uint(uint64_t v) {
  KeyScalar s;
  s.kind = Kind::kUint;
  s.u = v;
  return s;
}
KeyScalar KeyScalar::from_double(double v) {
  KeyScalar s;
  s.kind = Kind::kFloat;
  s.f = v;
  return s;
}
KeyScalar KeyScalar::from_bytes(ByteSpan v) {
  KeyScalar s;
  s.kind = Kind::kBytes;
  s.bytes = v;
  return s;
}
KeyScalar KeyScalar::from_wide(const std::array<uint8_t, 32>& v) {
  KeyScalar s;
  s.kind = Kind::kWide;
  s.wide = v;
  return s;
}

KeyScalar KeyScalar::from_value(const Field& field, ByteSpan value) {
  if (field.layout == Layout::kBytes ||
      field.logical == Logical::kFixedBinary) {
    return from_bytes(value);
  }
  if (field.layout == Layout::kBool) return from_bool(value[0] != 0);
  const uint32_t width = field.width;
  if (field.logical == Logical::kFloat) {
    if (width == 2)
      return from_double(half_to_double(load<uint16_t>(value.data())));
    if (width == 4) return from_double(double{load<float>(value.data())});
    return from_double(load<double>(value.data()));
  }
  if (width > 8) {
    std::array<uint8_t, 32> wide{};
    wide.fill((value[width - 1] & 0x80) != 0 ? 0xff : 0);
    std::memcpy(wide.data(), value.data(), width);
    return from_wide(wide);
  }
  uint64_t bits = 0;
  std::memcpy(&bits, value.data(), width);
  const uint32_t unused = 64 - 8 * width;
  return field.is_signed
             ? from_int(static_cast<int64_t>(bits << unused) >> unused)
             : from_uint(bits);
}

namespace {

using Kind = KeyScalar::Kind;

// Converts an integer scalar to 256 bits. Returns false for other kinds.
bool to_wide(const KeyScalar& v, std::array<uint8_t, 32>* out) {
  if (v.kind == Kind::kWide) {
    *out = v.wide;
  } else if (v.kind == Kind::kInt) {
    out->fill(v.i < 0 ? 0xff : 0);
    store<int64_t>(out->data(), v.i);
  } else if (v.kind == Kind::kUint) {
    out->fill(0);
    store<uint64_t>(out->data(), v.u);
  } else {
    return false;
  }
  return true;
}

ScalarFit fit_integer(const std::array<uint8_t, 32>& v, uint32_t width,
                      bool is_signed) {
  const bool negative = (v[31] & 0x80) != 0;
  const ScalarFit outside = negative ? ScalarFit::kBelow : ScalarFit::kAbove;
  if (!is_signed && negative) return outside;
  const uint8_t extension = negative ? 0xff : 0;
  for (size_t i = width; i < 32; ++i) {
    if (v[i] != extension) return outside;
  }
  const bool top = (v[width - 1] & 0x80) != 0;
  return is_signed && top != negative ? outside : ScalarFit::kExact;
}

// Converts an int or float scalar to a double. Returns kInexact if the double
// is not equal to the scalar.
ScalarFit to_double(const KeyScalar& v, double* out) {
  constexpr double kTwo63 = 9223372036854775808.0;
  if (v.kind == Kind::kFloat) {
    *out = v.f;
    return ScalarFit::kExact;
  }
  if (v.kind == Kind::kInt) {
    *out = static_cast<double>(v.i);
    const bool same = *out < kTwo63 && static_cast<int64_t>(*out) == v.i;
    return same ? ScalarFit::kExact : ScalarFit::kInexact;
  }
  if (v.kind == Kind::kUint) {
    *out = static_cast<double>(v.u);
    const bool same = *out < 2 * kTwo63 && static_cast<uint64_t>(*out) == v.u;
    return same ? ScalarFit::kExact : ScalarFit::kInexact;
  }
  return ScalarFit::kWrongType;
}

// Converts a double to the ordered bits of a float of `width` bytes.
ScalarFit to_float(double v, uint32_t width, uint64_t* ordered) {
  if (width == 8) {
    *ordered = ordered_float(std::bit_cast<uint64_t>(v));
    return ScalarFit::kExact;
  }
  if (width == 4) {
    // Checks the range first, because converting a double outside float's range
    // is undefined.
    constexpr double kMax = std::numeric_limits<float>::max();
    if (std::isfinite(v) && std::fabs(v) > kMax) return ScalarFit::kInexact;
    const auto f = static_cast<float>(v);
    *ordered = ordered_float(std::bit_cast<uint32_t>(f));
    const bool same = std::isnan(v) || static_cast<double>(f) == v;
    return same ? ScalarFit::kExact : ScalarFit::kInexact;
  }
  uint16_t half = 0;
  if (!double_to_half(v, &half)) return ScalarFit::kInexact;
  *ordered = ordered_float(half);
  return ScalarFit::kExact;
}

// Converts a scalar to the value bytes of a fixed-width column, if the fit is
// exact.
ScalarFit convert(const KeyColumn& c, const KeyScalar& v, uint8_t* out) {
  const uint8_t inversion = c.inversion();
  const uint64_t invert = inversion != 0 ? ~uint64_t{0} : 0;
  switch (c.kind) {
    case KeyKind::kBool:
      if (v.kind != Kind::kBool) return ScalarFit::kWrongType;
      *out = static_cast<uint8_t>((v.boolean ? 2 : 1) ^ inversion);
      return ScalarFit::kExact;
    case KeyKind::kSigned:
    case KeyKind::kUnsigned:
    case KeyKind::kWide: {
      std::array<uint8_t, 32> wide;
      if (!to_wide(v, &wide)) return ScalarFit::kWrongType;
      const bool is_signed = c.kind != KeyKind::kUnsigned;
      const ScalarFit fit = fit_integer(wide, c.width, is_signed);
      if (fit != ScalarFit::kExact) return fit;
      if (c.kind == KeyKind::kWide) {
        put_wide(out, wide.data(), c.width, inversion);
      } else {
        const uint64_t sign = is_signed ? uint64_t{1} << (c.width * 8 - 1) : 0;
        const uint64_t bits = load<uint64_t>(wide.data()) ^ sign ^ invert;
        store_be(out, bits, c.width);
      }
      return fit;
    }
    case KeyKind::kFloat: {
      double d = 0;
      uint64_t ordered = 0;
      ScalarFit fit = to_double(v, &d);
      if (fit == ScalarFit::kExact) fit = to_float(d, c.width, &ordered);
      store_be(out, ordered ^ invert, c.width);
      return fit;
    }
    default:
      return ScalarFit::kWrongType;
  }
}

}  // namespace

ScalarFit fit_of(const KeyColumn& c, const KeyScalar& v) {
  if (v.kind == Kind::kNull) return ScalarFit::kExact;
  if (c.kind == KeyKind::kBytes || c.kind == KeyKind::kFixedBytes) {
    const bool same =
        v.kind == Kind::kBytes && (!c.is_fixed() || v.bytes.size() == c.width);
    return same ? ScalarFit::kExact : ScalarFit::kWrongType;
  }
  uint8_t scratch[32];
  return convert(c, v, scratch);
}

Status encode_scalar(const KeyColumn& c, const KeyScalar& v, ByteBuffer* out) {
  if (v.kind == Kind::kNull) {
    out->put_u8(c.null_marker());
    out->extend(c.width);  // zeros
    return Status::ok();
  }
  uint8_t fixed[32];
  const bool is_bytes =
      c.kind == KeyKind::kBytes || c.kind == KeyKind::kFixedBytes;
  const ScalarFit fit = is_bytes ? fit_of(c, v) : convert(c, v, fixed);
  if (fit != ScalarFit::kExact) {
    return Status::invalid_argument(
        "column '" + c.name + "': the value is " +
        (fit == ScalarFit::kWrongType ? "of another type"
         : fit == ScalarFit::kInexact
             ? "not exact in the column's type"
             : "out of the range of the column's type"));
  }
  if (!is_bytes) {
    out->put_u8(c.value_marker());
    out->put_bytes(fixed, c.width);
    return Status::ok();
  }
  NIMBLE_RETURN_IF_ERROR(encode_starts_with(c, v.bytes, out));
  if (c.kind == KeyKind::kBytes) out->put_u8(c.inversion());
  return Status::ok();
}

Status encode_starts_with(const KeyColumn& c, ByteSpan start, ByteBuffer* out) {
  if (c.kind != KeyKind::kBytes &&
      (c.kind != KeyKind::kFixedBytes || start.size() > c.width)) {
    return Status::invalid_argument(
        "column '" + c.name +
        "' cannot have values that start with this prefix");
  }
  out->put_u8(c.value_marker());
  const bool escape = c.kind == KeyKind::kBytes;
  const size_t extra = escape ? count_escapes(start) : 0;
  uint8_t* to = out->extend(start.size() + extra);
  if (extra > 0) {
    put_escaped(to, start, c.inversion());
  } else {
    put_plain(to, start, c.inversion());
  }
  return Status::ok();
}

double half_to_double(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  double v;
  if (exponent == 31) {
    v = fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                      : std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    v = std::ldexp(fraction, -24);
  } else {
    v = std::ldexp(1024 + fraction, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -v : v;
}

bool double_to_half(double v, uint16_t* bits) {
  const auto sign = static_cast<uint16_t>(std::signbit(v) ? 0x8000 : 0);
  if (std::isnan(v)) {
    *bits = 0x7e00;
    return true;
  }
  const double a = std::fabs(v);
  if (std::isinf(v)) {
    *bits = sign | 0x7c00;
    return true;
  }
  if (a >= 65536.0) return false;
  int exponent = 0;
  uint16_t magnitude = 0;
  if (a != 0) {
    (void)std::frexp(a, &exponent);  // a = m * 2^exponent, 1/2 <= m < 1
    if (exponent < -13) {            // subnormal
      magnitude = static_cast<uint16_t>(std::ldexp(a, 24));
    } else {
      const int fraction = static_cast<int>(std::ldexp(a, 11 - exponent));
      magnitude =
          static_cast<uint16_t>(((exponent + 14) << 10) + (fraction - 1024));
    }
  }
  *bits = sign | magnitude;
  return half_to_double(*bits) == v;
}

}  // namespace nimble
