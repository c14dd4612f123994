#include "nimble/key/decimal_text.h"

#include <algorithm>
#include <charconv>
#include <vector>

namespace nimble {
namespace {

// Formats two's complement bytes as decimal digits, by repeated division.
std::string integer_text(ByteSpan v) {
  std::vector<uint8_t> bytes(v.begin(), v.end());
  const bool negative = (bytes.back() & 0x80) != 0;
  if (negative) {
    int carry = 1;
    for (uint8_t& b : bytes) {
      carry += static_cast<uint8_t>(~b);
      b = static_cast<uint8_t>(carry);
      carry >>= 8;
    }
  }
  std::string digits;
  while (std::any_of(bytes.begin(), bytes.end(),
                     [](uint8_t b) { return b != 0; })) {
    int rest = 0;
    for (size_t i = bytes.size(); i-- > 0;) {
      const int part = rest * 256 + bytes[i];
      bytes[i] = static_cast<uint8_t>(part / 10);
      rest = part % 10;
    }
    digits += static_cast<char>('0' + rest);
  }
  if (digits.empty()) digits += '0';
  if (negative) digits += '-';
  std::reverse(digits.begin(), digits.end());
  return digits;
}

}  // namespace

int decimal_scale(const std::string& format) {
  int scale = 0;
  const size_t comma = format.find(',');
  if (comma != std::string::npos) {
    std::from_chars(format.data() + comma + 1, format.data() + format.size(),
                    scale);
  }
  return scale;
}

std::string decimal_text(ByteSpan value, int scale) {
  std::string text = integer_text(value);
  if (scale == 0 || scale > 256 || scale < -256) return text;
  if (scale < 0) {
    if (text != "0") text.append(static_cast<size_t>(-scale), '0');
    return text;
  }
  const size_t sign = text[0] == '-' ? 1 : 0;
  const auto digits = static_cast<size_t>(scale);
  if (text.size() - sign <= digits) {
    text.insert(sign, digits + 1 - (text.size() - sign), '0');
  }
  return text.insert(text.size() - digits, 1, '.');
}

}  // namespace nimble
