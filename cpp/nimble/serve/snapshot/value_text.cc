#include "nimble/serve/snapshot/value_text.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>

#include "nimble/key/decimal_text.h"
#include "nimble/key/key_scalar.h"
#include "nimble/key/value_bits.h"

namespace nimble {
namespace {

constexpr char kDigits[] = "0123456789abcdef";

template <class T>
void append_number(T v, std::string* out) {
  char text[24];
  char* const end = std::to_chars(text, text + sizeof text, v).ptr;
  out->append(text, static_cast<size_t>(end - text));
}

// Appends `v` with at least `width` digits.
void append_padded(uint64_t v, int width, std::string* out) {
  char text[24];
  const char* const end = std::to_chars(text, text + sizeof text, v).ptr;
  const auto n = static_cast<int>(end - text);
  if (n < width) out->append(static_cast<size_t>(width - n), '0');
  out->append(text, static_cast<size_t>(n));
}

// Writes exactly `width` digits of `v`. Returns their end.
char* put_digits(uint64_t v, int width, char* to) {
  for (int i = width; i-- > 0; v /= 10) {
    to[i] = static_cast<char>('0' + v % 10);
  }
  return to + width;
}

// Writes a float whose text has only a few decimals, as most values that people
// enter have. Returns null for others.
template <class T>
char* put_short_float(T v, char* to) {
  // A text of at most digits10 digits that converts to `v` is the shortest: no
  // other text of so few digits converts to `v`.
  constexpr int kDecimals = sizeof(T) == 8 ? 6 : 3;
  constexpr T kScale = sizeof(T) == 8 ? T{1e6} : T{1e3};
  constexpr T kMost = sizeof(T) == 8 ? T{1e15} : T{1e6};
  constexpr T kLeast = T{1} / T{1000};  // smaller values may need an exponent
  const T size = std::abs(v);
  const T scaled = size * kScale;
  if ((size < kLeast && size != 0) || !(scaled < kMost)) return nullptr;
  const auto digits = static_cast<uint64_t>(scaled + T{0.5});
  // Both numbers are exact, so the quotient is the value of the text.
  if (static_cast<T>(digits) / kScale != size) return nullptr;
  if (std::signbit(v)) *to++ = '-';
  constexpr auto kWholeScale = static_cast<uint64_t>(kScale);
  to = std::to_chars(to, to + 20, digits / kWholeScale).ptr;
  *to++ = '.';
  uint64_t fraction = digits % kWholeScale;
  int width = kDecimals;
  for (; width > 1 && fraction % 10 == 0; --width) fraction /= 10;
  return put_digits(fraction, width, to);
}

// Appends a float like Python's repr(): the shortest digits that convert back
// to the same value.
template <class T>
void append_float(T v, std::string* out) {
  if (std::isnan(v)) {
    out->append("nan");
    return;
  }
  if (std::isinf(v)) {
    out->append(v < 0 ? "-inf" : "inf");
    return;
  }
  char text[48];
  if (const char* const end = put_short_float(v, text)) {
    out->append(text, static_cast<size_t>(end - text));
    return;
  }
  const char* const end =
      std::to_chars(text, text + sizeof text, v, std::chars_format::scientific)
          .ptr;
  const char* at = text;
  if (*at == '-') out->push_back(*at++);
  std::string digits;
  for (; *at != 'e'; ++at) {
    if (*at != '.') digits.push_back(*at);
  }
  ++at;
  if (*at == '+') ++at;
  int exponent = 0;
  std::from_chars(at, end, exponent);
  if (exponent < -4 || exponent >= 16) {
    out->push_back(digits[0]);
    if (digits.size() > 1) {
      out->push_back('.');
      out->append(digits, 1);
    }
    out->append(exponent < 0 ? "e-" : "e+");
    append_padded(static_cast<uint64_t>(std::abs(exponent)), 2, out);
  } else if (exponent < 0) {
    out->append("0.");
    out->append(static_cast<size_t>(-exponent - 1), '0');
    out->append(digits);
  } else {
    const auto whole = static_cast<size_t>(exponent) + 1;
    if (digits.size() <= whole) {
      digits.append(whole - digits.size(), '0');
      out->append(digits).append(".0");
    } else {
      out->append(digits, 0, whole).push_back('.');
      out->append(digits, whole);
    }
  }
}

void append_float_bytes(ByteSpan v, std::string* out) {
  if (v.size() == 2) {
    // Half floats use the text of the equal float, because the shortest text
    // for a half float would need an algorithm of its own.
    append_float(static_cast<float>(half_to_double(load<uint16_t>(v.data()))),
                 out);
  } else if (v.size() == 4) {
    append_float(load<float>(v.data()), out);
  } else {
    append_float(load<double>(v.data()), out);
  }
}

// The units per second and the digits of a fraction, for the third character of
// a format ("ttu", "tsn:").
struct TimeUnit {
  int64_t per_second = 1;
  int digits = 0;
};
TimeUnit unit_of(const Field& field) {
  switch (field.format.size() > 2 ? field.format[2] : 's') {
    case 'm':
      return {1000, 3};
    case 'u':
      return {1000000, 6};
    case 'n':
      return {1000000000, 9};
    default:
      return {};
  }
}
bool has_zone(const Field& field) { return field.format.size() > 4; }

// Calls `action` with the unit of a field as a constant, because divisions by
// constants are much quicker than others.
template <class Action>
auto with_unit(const Field& field, Action&& action) {
  switch (unit_of(field).digits) {
    case 3:
      return action(std::integral_constant<int, 3>());
    case 6:
      return action(std::integral_constant<int, 6>());
    case 9:
      return action(std::integral_constant<int, 9>());
    default:
      return action(std::integral_constant<int, 0>());
  }
}
constexpr int64_t power_of_10(int n) {
  return n == 0 ? 1 : 10 * power_of_10(n - 1);
}

constexpr size_t kMaxDate = 32;
constexpr size_t kMaxTime = 40;

char* put_date(int64_t days, char* to) {
  // The proleptic Gregorian calendar in cycles of 400 years from 1 March 0000.
  constexpr int64_t kCycle = 146097;
  days += 719468;
  const int64_t cycle = (days >= 0 ? days : days - (kCycle - 1)) / kCycle;
  const int64_t in_cycle = days - cycle * kCycle;
  const int64_t year_of_cycle =
      (in_cycle - in_cycle / 1460 + in_cycle / 36524 - in_cycle / 146096) / 365;
  const int64_t in_year = in_cycle - (365 * year_of_cycle + year_of_cycle / 4 -
                                      year_of_cycle / 100);
  const int64_t march = (5 * in_year + 2) / 153;
  const int64_t day = in_year - (153 * march + 2) / 5 + 1;
  const int64_t month = march < 10 ? march + 3 : march - 9;
  const int64_t year = year_of_cycle + cycle * 400 + (month <= 2 ? 1 : 0);
  if (year >= 0 && year <= 9999) {
    to = put_digits(static_cast<uint64_t>(year), 4, to);
  } else {
    *to++ = year < 0 ? '-' : '+';
    const auto size = static_cast<uint64_t>(year < 0 ? -year : year);
    to = size <= 9999 ? put_digits(size, 4, to)
                      : std::to_chars(to, to + 20, size).ptr;
  }
  *to++ = '-';
  to = put_digits(static_cast<uint64_t>(month), 2, to);
  *to++ = '-';
  return put_digits(static_cast<uint64_t>(day), 2, to);
}

// Writes a time of day in units, from 0 to 24 h. Larger values, which files may
// have, get more digits. REQUIRES: v is not negative.
template <int kDigits>
char* put_time(int64_t v, char* to) {
  constexpr int64_t kPerSecond = power_of_10(kDigits);
  const auto seconds = static_cast<uint64_t>(v / kPerSecond);
  const uint64_t hours = seconds / 3600;
  to = hours < 100 ? put_digits(hours, 2, to)
                   : std::to_chars(to, to + 20, hours).ptr;
  *to++ = ':';
  to = put_digits(seconds / 60 % 60, 2, to);
  *to++ = ':';
  to = put_digits(seconds % 60, 2, to);
  if constexpr (kDigits > 0) {
    *to++ = '.';
    to = put_digits(static_cast<uint64_t>(v % kPerSecond), kDigits, to);
  }
  return to;
}

template <int kDigits>
char* put_timestamp(int64_t v, char* to) {
  constexpr int64_t kPerDay = 86400 * power_of_10(kDigits);
  const int64_t days = v / kPerDay - (v % kPerDay < 0 ? 1 : 0);
  to = put_date(days, to);
  *to++ = 'T';
  // For times near the least int64, both the product and the difference wrap,
  // and the result is right.
  return put_time<kDigits>(
      static_cast<int64_t>(static_cast<uint64_t>(v) -
                           static_cast<uint64_t>(days) *
                               static_cast<uint64_t>(kPerDay)),
      to);
}

int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

void append_date(int64_t days, std::string* out) {
  char text[kMaxDate];
  out->append(text, static_cast<size_t>(put_date(days, text) - text));
}

void append_time(const Field& field, int64_t v, std::string* out) {
  if (v < 0) {  // no time of day, but files may have it
    out->push_back('-');
    v = v == INT64_MIN ? INT64_MAX : -v;
  }
  with_unit(field, [&](auto digits) {
    char text[kMaxTime];
    out->append(text, static_cast<size_t>(put_time<digits>(v, text) - text));
  });
}

void append_timestamp(const Field& field, int64_t v, std::string* out) {
  with_unit(field, [&](auto digits) {
    char text[kMaxDate + kMaxTime];
    char* end = put_timestamp<digits>(v, text);
    if (has_zone(field)) *end++ = 'Z';
    out->append(text, static_cast<size_t>(end - text));
  });
}

void append_hex(ByteSpan v, std::string* out) {
  for (const uint8_t b : v) {
    out->push_back(kDigits[b >> 4]);
    out->push_back(kDigits[b & 15]);
  }
}

bool is_uuid(const Field& field) {
  if (field.width != 16 || field.logical != Logical::kFixedBinary) return false;
  for (const auto& [key, value] : field.metadata) {
    if (key == "ARROW:extension:name") return value == "arrow.uuid";
  }
  return false;
}

void append_uuid(ByteSpan v, std::string* out) {
  size_t at = 0;
  for (const size_t n : {4, 2, 2, 2, 6}) {
    if (at > 0) out->push_back('-');
    append_hex(v.subspan(at, n), out);
    at += n;
  }
}

// ISO 8601 durations of calendar intervals: "tiM", "tiD" and "tin".
void append_interval(const Field& field, ByteSpan v, std::string* out) {
  const char kind = field.format.size() > 2 ? field.format[2] : 'M';
  const auto part = [&](int64_t n, char unit) {
    append_number(n, out);
    out->push_back(unit);
  };
  out->push_back('P');
  if (kind == 'D') {
    part(load<int32_t>(v.data()), 'D');
    out->push_back('T');
    append_number(load<int32_t>(v.data() + 4), out);
    out->append("e-3S");
    return;
  }
  part(load<int32_t>(v.data()), 'M');
  if (kind == 'M') return;
  part(load<int32_t>(v.data() + 4), 'D');
  out->push_back('T');
  append_number(load<int64_t>(v.data() + 8), out);
  out->append("e-9S");
}

// ---- text to values

template <class T>
std::string bytes_of(T v) {
  std::string out(sizeof v, '\0');
  std::memcpy(out.data(), &v, sizeof v);
  return out;
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return c >= '0' && c <= '9';
  });
}

bool is_canonical_integer(std::string_view text) {
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  return all_digits(digits) && (digits[0] != '0' || text == "0");
}

template <class T>
TextFit parse_int(std::string_view text, std::string* out) {
  if (!is_canonical_integer(text)) return TextFit::kInvalid;
  T v{};
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), v);
  // This includes a negative number for an unsigned type.
  if (error != std::errc() || end != text.data() + text.size()) {
    return TextFit::kOutside;
  }
  *out = bytes_of(v);
  return TextFit::kExact;
}

TextFit parse_integer(const Field& field, std::string_view text,
                      std::string* out) {
  switch (field.width) {
    case 1:
      return field.is_signed ? parse_int<int8_t>(text, out)
                             : parse_int<uint8_t>(text, out);
    case 2:
      return field.is_signed ? parse_int<int16_t>(text, out)
                             : parse_int<uint16_t>(text, out);
    case 4:
      return field.is_signed ? parse_int<int32_t>(text, out)
                             : parse_int<uint32_t>(text, out);
    default:
      return field.is_signed ? parse_int<int64_t>(text, out)
                             : parse_int<uint64_t>(text, out);
  }
}

template <class T>
TextFit parse_real(std::string_view text, T* v) {
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), *v);
  if (end != text.data() + text.size() || text.empty()) {
    return TextFit::kInvalid;
  }
  return error == std::errc() ? TextFit::kExact : TextFit::kOutside;
}

TextFit parse_float(const Field& field, std::string_view text,
                    std::string* out) {
  if (field.width == 4) {
    float v = 0;
    const TextFit fit = parse_real(text, &v);
    *out = bytes_of(v);
    return fit;
  }
  double v = 0;
  const TextFit fit = parse_real(text, &v);
  if (field.width == 8 || fit != TextFit::kExact) {
    *out = bytes_of(v);
    return fit;
  }
  uint16_t half = 0;
  if (!double_to_half(v, &half)) return TextFit::kOutside;
  *out = bytes_of(half);
  return TextFit::kExact;
}

// Parses a decimal as two's complement of field.width bytes. Accepts only the
// text that append_text() writes, so that each row has only one key.
TextFit parse_decimal(const Field& field, std::string_view text,
                      std::string* out) {
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  const size_t point = text.find('.');
  const std::string_view whole = text.substr(0, point);
  std::string_view fraction;
  if (point != std::string_view::npos) fraction = text.substr(point + 1);
  const int scale = decimal_scale(field.format);
  const bool has_fraction = scale > 0;
  if (!all_digits(whole) || (whole[0] == '0' && whole.size() > 1) ||
      (point != std::string_view::npos) != has_fraction ||
      (has_fraction && (!all_digits(fraction) ||
                        fraction.size() != static_cast<size_t>(scale)))) {
    return TextFit::kInvalid;
  }
  std::string digits(whole);
  if (scale < 0 && whole != "0") {
    // A column of negative scale has only values that end with these zeros.
    const auto zeros = static_cast<size_t>(-int64_t{scale});
    if (whole.size() <= zeros ||
        whole.find_last_not_of('0') + zeros >= whole.size()) {
      return TextFit::kOutside;
    }
    digits.resize(whole.size() - zeros);
  }
  if (digits.size() > 100) return TextFit::kOutside;
  digits += fraction;
  if (is_negative && digits.find_first_not_of('0') == std::string::npos) {
    return TextFit::kInvalid;  // "-0"
  }
  std::string v(field.width, '\0');
  for (const char digit : digits) {
    int carry = digit - '0';
    for (char& byte : v) {
      const int product = static_cast<uint8_t>(byte) * 10 + carry;
      byte = static_cast<char>(product & 0xff);
      carry = product >> 8;
    }
    if (carry != 0) return TextFit::kOutside;
  }
  // Only the least value has the magnitude of the sign bit.
  const bool is_least = is_negative && static_cast<uint8_t>(v.back()) == 0x80 &&
                        v.find_first_not_of('\0') == v.size() - 1;
  if ((v.back() & 0x80) != 0 && !is_least) return TextFit::kOutside;
  if (is_negative) {
    int carry = 1;
    for (char& byte : v) {
      carry += static_cast<uint8_t>(~byte);
      byte = static_cast<char>(carry & 0xff);
      carry >>= 8;
    }
  }
  *out = std::move(v);
  return TextFit::kExact;
}

// Reads text from the front.
class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) {}
  bool take(char c) {
    if (!text_.starts_with(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  // Reads a number of exactly `width` digits.
  bool digits(size_t width, int64_t* out) {
    if (text_.size() < width || !all_digits(text_.substr(0, width))) {
      return false;
    }
    std::from_chars(text_.data(), text_.data() + width, *out);
    text_.remove_prefix(width);
    return true;
  }
  // Reads all digits at the front.
  std::string_view all() {
    size_t n = 0;
    while (n < text_.size() && text_[n] >= '0' && text_[n] <= '9') ++n;
    const std::string_view out = text_.substr(0, n);
    text_.remove_prefix(n);
    return out;
  }
  bool is_done() const { return text_.empty(); }

 private:
  std::string_view text_;
};

bool parse_date_part(TextCursor* text, int64_t* days) {
  const bool is_negative = text->take('-');
  const bool is_long = !is_negative && text->take('+');
  const std::string_view digits = text->all();
  if (digits.size() < 4 || digits.size() > 12 ||
      (digits.size() > 4 && !is_long && !is_negative)) {
    return false;
  }
  int64_t year = 0, month = 0, day = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), year);
  if (is_negative) year = -year;
  if (!text->take('-') || !text->digits(2, &month) || !text->take('-') ||
      !text->digits(2, &day) || month < 1 || month > 12 || day < 1) {
    return false;
  }
  constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  if (day > kDays[month - 1] + (month == 2 && is_leap ? 1 : 0)) return false;
  // The reverse of append_date().
  const int64_t y = month <= 2 ? year - 1 : year;
  const int64_t cycle = floor_div(y, 400);
  const int64_t of_cycle = y - cycle * 400;
  const int64_t of_year =
      (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
  *days = cycle * 146097 + of_cycle * 365 + of_cycle / 4 - of_cycle / 100 +
          of_year - 719468;
  return true;
}

// Returns kOutside if there are more digits than the unit has.
TextFit parse_time_part(TextCursor* text, const TimeUnit& unit, int64_t* out) {
  int64_t hours = 0, minutes = 0, seconds = 0, fraction = 0;
  if (!text->digits(2, &hours) || !text->take(':') ||
      !text->digits(2, &minutes) || !text->take(':') ||
      !text->digits(2, &seconds) || hours > 23 || minutes > 59 ||
      seconds > 59) {
    return TextFit::kInvalid;
  }
  TextFit fit = TextFit::kExact;
  if (text->take('.')) {
    std::string digits(text->all());
    if (digits.empty() || digits.size() > 18) return TextFit::kInvalid;
    const auto kept = static_cast<size_t>(unit.digits);
    if (digits.find_first_not_of('0', std::min(kept, digits.size())) !=
        std::string::npos) {
      fit = TextFit::kOutside;
    }
    digits.resize(kept, '0');
    std::from_chars(digits.data(), digits.data() + digits.size(), fraction);
  }
  *out = ((hours * 60 + minutes) * 60 + seconds) * unit.per_second + fraction;
  return fit;
}

TextFit put_int(const Field& field, __int128 v, std::string* out) {
  if (field.width == 4) {
    if (v < std::numeric_limits<int32_t>::min() ||
        v > std::numeric_limits<int32_t>::max()) {
      return TextFit::kOutside;
    }
    *out = bytes_of(static_cast<int32_t>(v));
    return TextFit::kExact;
  }
  if (v < std::numeric_limits<int64_t>::min() ||
      v > std::numeric_limits<int64_t>::max()) {
    return TextFit::kOutside;
  }
  *out = bytes_of(static_cast<int64_t>(v));
  return TextFit::kExact;
}

TextFit parse_date(const Field& field, std::string_view text,
                   std::string* out) {
  TextCursor cursor(text);
  int64_t days = 0;
  if (!parse_date_part(&cursor, &days) || !cursor.is_done()) {
    return TextFit::kInvalid;
  }
  return put_int(field, field.width == 8 ? __int128{days} * 86400000 : days,
                 out);
}

TextFit parse_time(const Field& field, std::string_view text,
                   std::string* out) {
  TextCursor cursor(text);
  int64_t v = 0;
  const TextFit fit = parse_time_part(&cursor, unit_of(field), &v);
  if (fit == TextFit::kInvalid || !cursor.is_done()) return TextFit::kInvalid;
  return fit == TextFit::kExact ? put_int(field, v, out) : fit;
}

// Columns with a time zone need "Z" or an offset from UTC. Other columns must
// not have one.
TextFit parse_timestamp(const Field& field, std::string_view text,
                        std::string* out) {
  TextCursor cursor(text);
  const TimeUnit unit = unit_of(field);
  int64_t days = 0, time = 0, offset = 0;
  if (!parse_date_part(&cursor, &days)) return TextFit::kInvalid;
  TextFit fit = TextFit::kExact;
  if (!cursor.is_done()) {
    if (!cursor.take('T') && !cursor.take(' ')) return TextFit::kInvalid;
    fit = parse_time_part(&cursor, unit, &time);
    if (fit == TextFit::kInvalid) return fit;
  }
  if (has_zone(field)) {
    if (!cursor.take('Z')) {
      const bool is_west = cursor.take('-');
      int64_t hours = 0, minutes = 0;
      if ((!is_west && !cursor.take('+')) || !cursor.digits(2, &hours) ||
          !cursor.take(':') || !cursor.digits(2, &minutes) || hours > 23 ||
          minutes > 59) {
        return TextFit::kInvalid;
      }
      offset = (hours * 60 + minutes) * 60 * (is_west ? 1 : -1);
    }
  }
  if (!cursor.is_done()) return TextFit::kInvalid;
  if (fit != TextFit::kExact) return fit;
  const __int128 seconds = __int128{days} * 86400 + offset;
  return put_int(field, seconds * unit.per_second + time, out);
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

TextFit parse_uuid(std::string_view text, std::string* out) {
  if (text.size() != 36) return TextFit::kInvalid;
  out->clear();
  int high = -1;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i == 8 || i == 13 || i == 18 || i == 23) {
      if (text[i] != '-') return TextFit::kInvalid;
      continue;
    }
    const int digit = hex_digit(text[i]);
    if (digit < 0) return TextFit::kInvalid;
    if (high < 0) {
      high = digit;
    } else {
      out->push_back(static_cast<char>(high * 16 + digit));
      high = -1;
    }
  }
  return TextFit::kExact;
}

// ---- JSON of nested values

void append_json(const Column& column, uint64_t row, std::string* out);

void append_json_text(std::string_view text, std::string* out) {
  out->push_back('"');
  for (const char c : text) {
    const auto b = static_cast<uint8_t>(c);
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (b < 0x20) {
      out->append("\\u00");
      out->push_back(kDigits[b >> 4]);
      out->push_back(kDigits[b & 15]);
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

void append_json_items(const Column& items, uint64_t begin, uint64_t end,
                       std::string* out) {
  out->push_back('[');
  for (uint64_t i = begin; i < end; ++i) {
    if (i > begin) out->push_back(',');
    append_json(items, i, out);
  }
  out->push_back(']');
}

// A map whose keys are text becomes an object, any other map a list of pairs.
void append_json_map(const Column& entries, uint64_t begin, uint64_t end,
                     std::string* out) {
  const Column& keys = entries.children[0];
  const Column& values = entries.children[1];
  const bool is_object = keys.field().logical == Logical::kText;
  out->push_back(is_object ? '{' : '[');
  for (uint64_t i = begin; i < end; ++i) {
    if (i > begin) out->push_back(',');
    if (!is_object) out->push_back('[');
    append_json(keys, i, out);
    out->push_back(is_object ? ':' : ',');
    append_json(values, i, out);
    if (!is_object) out->push_back(']');
  }
  out->push_back(is_object ? '}' : ']');
}

// Returns the child of a union that contains a row, and the row in that child.
std::pair<const Column*, uint64_t> of_union(const Column& column,
                                            uint64_t row) {
  const Field& field = column.field();
  const auto id = load<int8_t>(column.value_data() + row);
  for (size_t i = 0; i < field.type_ids.size(); ++i) {
    if (field.type_ids[i] != id) continue;
    return {&column.children[i], field.is_dense_union
                                     ? static_cast<uint64_t>(column.ends[row])
                                     : row};
  }
  return {nullptr, 0};
}

uint64_t run_of(const Column& column, uint64_t row) {
  return static_cast<uint64_t>(std::upper_bound(column.ends.begin(),
                                                column.ends.end(),
                                                static_cast<int64_t>(row)) -
                               column.ends.begin());
}

int64_t code_of(const Column& column, uint64_t row) {
  const uint32_t width = column.field().width;
  const ByteSpan v(column.value_data() + row * width, width);
  if (column.field().is_signed || width == 8)
    return load_signed(v.data(), v.size());
  uint8_t wide[8] = {};
  std::memcpy(wide, v.data(), width);
  return load<int64_t>(wide);
}

}  // namespace

ByteSpan flat_value(const Column& column, uint64_t row, uint8_t* bit) {
  const Field& field = column.field();
  if (field.layout == Layout::kBool) {
    *bit = get_bit(column.values.data(), row) ? 1 : 0;
    return {bit, 1};
  }
  if (field.layout == Layout::kBytes) {
    const uint64_t begin = column.bytes.begin_of(row);
    return {column.bytes.data.data() + begin, column.bytes.end_of(row) - begin};
  }
  return {column.value_data() + row * field.width, field.width};
}

namespace {

void append_json(const Column& column, uint64_t row, std::string* out) {
  if (is_null_row(column, row)) {
    out->append("null");
    return;
  }
  switch (column.field().logical) {
    case Logical::kBool:
    case Logical::kInt:
    case Logical::kNested:
    case Logical::kDictionary:
      break;
    case Logical::kFloat: {
      const size_t before = out->size();
      append_text(column, row, out);
      const char last = out->back();
      if (last == 'n' || last == 'f') {  // nan, inf
        out->insert(before, 1, '"').push_back('"');
      }
      return;
    }
    case Logical::kBinary:
    case Logical::kFixedBinary:
      if (!is_uuid(column.field())) {
        uint8_t bit = 0;
        out->push_back('"');
        append_hex(flat_value(column, row, &bit), out);
        out->push_back('"');
        return;
      }
      [[fallthrough]];
    default: {
      std::string text;
      append_text(column, row, &text);
      append_json_text(text, out);
      return;
    }
  }
  const Field& field = column.field();
  if (field.layout == Layout::kDictionary) {
    append_json(column.dictionary->values,
                static_cast<uint64_t>(code_of(column, row)), out);
  } else if (field.layout == Layout::kRunEnd) {
    append_json(column.children[0], run_of(column, row), out);
  } else if (field.layout == Layout::kUnion) {
    const auto [child, at] = of_union(column, row);
    append_json(*child, at, out);
  } else {
    append_text(column, row, out);
  }
}

}  // namespace

void append_text(const Field& field, ByteSpan v, std::string* out) {
  switch (field.logical) {
    case Logical::kBool:
      out->append(v[0] != 0 ? "true" : "false");
      return;
    case Logical::kInt:
    case Logical::kDuration:
      if (field.is_signed || field.logical == Logical::kDuration) {
        append_number(load_signed(v.data(), v.size()), out);
      } else {
        uint8_t wide[8] = {};
        std::memcpy(wide, v.data(), v.size());
        append_number(load<uint64_t>(wide), out);
      }
      return;
    case Logical::kFloat:
      append_float_bytes(v, out);
      return;
    case Logical::kDecimal:
      out->append(decimal_text(v, decimal_scale(field.format)));
      return;
    case Logical::kDate:
      append_date(v.size() == 8
                      ? floor_div(load_signed(v.data(), v.size()), 86400000)
                      : load_signed(v.data(), v.size()),
                  out);
      return;
    case Logical::kTime:
      append_time(field, load_signed(v.data(), v.size()), out);
      return;
    case Logical::kTimestamp:
      append_timestamp(field, load_signed(v.data(), v.size()), out);
      return;
    case Logical::kInterval:
      append_interval(field, v, out);
      return;
    case Logical::kFixedBinary:
      if (is_uuid(field)) {
        append_uuid(v, out);
        return;
      }
      break;
    default:
      break;
  }
  out->append(as_string(v));
}

void append_text(const Column& column, uint64_t row, std::string* out) {
  const Field& field = column.field();
  switch (field.layout) {
    case Layout::kFixed:
    case Layout::kBool:
    case Layout::kBytes: {
      uint8_t bit = 0;
      append_text(field, flat_value(column, row, &bit), out);
      return;
    }
    case Layout::kDictionary:
      append_text(column.dictionary->values,
                  static_cast<uint64_t>(code_of(column, row)), out);
      return;
    case Layout::kRunEnd:
      append_text(column.children[0], run_of(column, row), out);
      return;
    case Layout::kUnion: {
      const auto [child, at] = of_union(column, row);
      append_text(*child, at, out);
      return;
    }
    case Layout::kList: {
      const auto begin = static_cast<uint64_t>(column.ends[row]);
      const auto end = static_cast<uint64_t>(column.ends[row + 1]);
      if (field.is_map) {
        append_json_map(column.children[0], begin, end, out);
      } else {
        append_json_items(column.children[0], begin, end, out);
      }
      return;
    }
    case Layout::kFixedList: {
      const auto n = static_cast<uint64_t>(field.list_size);
      append_json_items(column.children[0], row * n, (row + 1) * n, out);
      return;
    }
    case Layout::kStruct:
      out->push_back('{');
      for (size_t i = 0; i < column.children.size(); ++i) {
        if (i > 0) out->push_back(',');
        append_json_text(field.children[i].name, out);
        out->push_back(':');
        append_json(column.children[i], row, out);
      }
      out->push_back('}');
      return;
    case Layout::kNull:
      return;
  }
}

bool is_null_row(const Column& column, uint64_t row) {
  switch (column.field().layout) {
    case Layout::kNull:
      return true;
    case Layout::kRunEnd:
      return is_null_row(column.children[0], run_of(column, row));
    case Layout::kUnion: {
      const auto [child, at] = of_union(column, row);
      return child == nullptr || is_null_row(*child, at);
    }
    case Layout::kDictionary:
      return !column.is_valid(row) ||
             is_null_row(column.dictionary->values,
                         static_cast<uint64_t>(code_of(column, row)));
    default:
      return !column.is_valid(row);
  }
}

TextFit parse_text(const Field& field, std::string_view text,
                   std::string* out) {
  switch (field.logical) {
    case Logical::kBool:
      if (text != "true" && text != "false") return TextFit::kInvalid;
      *out = std::string(1, text == "true" ? '\1' : '\0');
      return TextFit::kExact;
    case Logical::kInt:
      return parse_integer(field, text, out);
    case Logical::kDuration:
      return parse_int<int64_t>(text, out);
    case Logical::kFloat:
      return parse_float(field, text, out);
    case Logical::kDecimal:
      return parse_decimal(field, text, out);
    case Logical::kDate:
      return parse_date(field, text, out);
    case Logical::kTime:
      return parse_time(field, text, out);
    case Logical::kTimestamp:
      return parse_timestamp(field, text, out);
    case Logical::kText:
    case Logical::kBinary:
      *out = text;
      return TextFit::kExact;
    case Logical::kFixedBinary:
      if (is_uuid(field)) return parse_uuid(text, out);
      if (text.size() != field.width) return TextFit::kOutside;
      *out = text;
      return TextFit::kExact;
    default:
      return TextFit::kInvalid;
  }
}

}  // namespace nimble
