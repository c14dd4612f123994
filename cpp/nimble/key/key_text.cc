// Formats keys for error messages.
#include <algorithm>
#include <charconv>
#include <chrono>

#include "nimble/key/decimal_text.h"
#include "nimble/key/key_decoder.h"
#include "nimble/key/value_bits.h"

namespace nimble {
namespace {

constexpr size_t kShownBytes = 64;

template <class T>
std::string number_text(T v) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, v);
  return {text, end.ptr};
}

std::string float_text(ByteSpan v) {
  if (v.size() == 2)
    return number_text(half_to_double(load<uint16_t>(v.data())));
  if (v.size() == 4) return number_text(load<float>(v.data()));
  return number_text(load<double>(v.data()));
}

std::string date_text(int64_t days) {
  // Only years of four digits; other dates are shown as day numbers.
  if (days < -719162 || days > 2932896) return number_text(days) + " days";
  const std::chrono::year_month_day date{
      std::chrono::sys_days{std::chrono::days{days}}};
  const auto two = [](unsigned n) {
    return std::string(n < 10 ? "-0" : "-") + std::to_string(n);
  };
  std::string year = std::to_string(static_cast<int>(date.year()));
  year.insert(0, 4 - year.size(), '0');
  return year + two(static_cast<unsigned>(date.month())) +
         two(static_cast<unsigned>(date.day()));
}

std::string unit_text(const KeyColumn& c) {
  switch (c.format.size() > 2 ? c.format[2] : ' ') {
    case 's':
      return " s";
    case 'm':
      return " ms";
    case 'u':
      return " us";
    default:
      return " ns";
  }
}

std::string quoted(ByteSpan v) {
  std::string out = "'";
  for (const uint8_t b : v.first(std::min(v.size(), kShownBytes))) {
    if (b == '\'' || b == '\\') out += '\\';
    if (b >= 0x20 && b != 0x7f) {
      out += static_cast<char>(b);
    } else {
      out += "\\x" + to_hex({&b, 1});
    }
  }
  return out + (v.size() > kShownBytes ? "'..." : "'");
}

std::string value_text(const KeyColumn& c, ByteSpan v) {
  switch (c.logical) {
    case Logical::kBool:
      return v[0] != 0 ? "true" : "false";
    case Logical::kFloat:
      return float_text(v);
    case Logical::kDecimal:
      return decimal_text(v, decimal_scale(c.format));
    case Logical::kDate:
      if (c.width == 4) return date_text(load_signed(v.data(), v.size()));
      return date_text(load_signed(v.data(), v.size()) / 86400000);
    case Logical::kTime:
    case Logical::kTimestamp:
    case Logical::kDuration:
      return number_text(load_signed(v.data(), v.size())) + unit_text(c);
    case Logical::kText:
      return quoted(v);
    case Logical::kBinary:
    case Logical::kFixedBinary:
      return "0x" + to_hex(v);
    default:
      break;
  }
  if (c.kind == KeyKind::kUnsigned && c.width == 8) {
    return number_text(load<uint64_t>(v.data()));
  }
  if (c.kind == KeyKind::kUnsigned) {
    uint8_t wide[8] = {};
    std::memcpy(wide, v.data(), c.width);
    return number_text(load<uint64_t>(wide));
  }
  return number_text(load_signed(v.data(), v.size()));
}

}  // namespace

std::string to_hex(ByteSpan bytes) {
  std::string out;
  for (const uint8_t b : bytes.first(std::min(bytes.size(), kShownBytes))) {
    out += "0123456789abcdef"[b >> 4];
    out += "0123456789abcdef"[b & 15];
  }
  return bytes.size() > kShownBytes ? out + "..." : out;
}

std::string KeyDecoder::to_text(ByteSpan key) const {
  std::vector<DecodedColumn> values;
  if (!decode(key, &values)) return "0x" + to_hex(key);
  std::string out;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (i > 0) out += ", ";
    out += values[i].validity[0] != 0
               ? value_text(columns_[i], values[i].value(columns_[i], 0))
               : "null";
  }
  return columns_.size() == 1 ? out : "(" + out + ")";
}

}  // namespace nimble
