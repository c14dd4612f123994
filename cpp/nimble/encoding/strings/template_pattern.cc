#include "nimble/encoding/strings/template_pattern.h"

#include <algorithm>

#include "nimble/base/compiler.h"
#include "nimble/encoding/blocks/digits.h"

namespace nimble {
namespace {

constexpr uint32_t kSampleRows = 64;

// Records which bytes each position contained so far.
struct Positions {
  uint32_t length = 0;
  uint8_t first[kMaxTemplateLength];
  uint8_t differs[kMaxTemplateLength] = {};
  uint8_t not_decimal[kMaxTemplateLength] = {};
  uint8_t not_lower[kMaxTemplateLength] = {};
  uint8_t not_upper[kMaxTemplateLength] = {};

  explicit Positions(const ByteSlice& s)
      : length(static_cast<uint32_t>(s.size)) {
    std::memcpy(first, s.data, s.size);
  }
  void add(const uint8_t* s) {
    for (uint32_t p = 0; p < length; ++p) {
      const uint8_t c = s[p];
      const uint8_t decimal = static_cast<uint8_t>(c - '0') > 9;
      const uint8_t lower = static_cast<uint8_t>(c - 'a') > 5;
      const uint8_t upper = static_cast<uint8_t>(c - 'A') > 5;
      differs[p] = static_cast<uint8_t>(differs[p] | (c ^ first[p]));
      not_decimal[p] |= decimal;
      not_lower[p] = static_cast<uint8_t>(not_lower[p] | (decimal & lower));
      not_upper[p] = static_cast<uint8_t>(not_upper[p] | (decimal & upper));
    }
  }
  bool is_digit(uint32_t p) const { return differs[p] != 0; }
  bool possible() const {
    for (uint32_t p = 0; p < length; ++p) {
      if (is_digit(p) && not_lower[p] && not_upper[p]) return false;
    }
    return true;
  }
  // The kind that includes all digits in [begin, end).
  std::optional<DigitKind> kind(uint32_t begin, uint32_t end) const {
    const auto none = [&](const uint8_t* seen) {
      return std::all_of(seen + begin, seen + end,
                         [](uint8_t b) { return !b; });
    };
    if (none(not_decimal)) return DigitKind::kDecimal;
    if (none(not_lower)) return DigitKind::kHexLower;
    if (none(not_upper)) return DigitKind::kHexUpper;
    return std::nullopt;
  }
};

// Appends the digits of one run, to the last limb if its kind and size allow
// it.
void add_run(DigitKind kind, uint32_t digits,
             std::vector<TemplateLimb>* limbs) {
  const uint32_t most = max_digits(kind);
  if (!limbs->empty() && limbs->back().kind == kind &&
      limbs->back().digits + digits <= most) {
    limbs->back().digits += digits;
    return;
  }
  for (; digits > most; digits -= most) limbs->push_back({kind, most});
  limbs->push_back({kind, digits});
}

std::optional<TemplatePattern> pattern_of(const Positions& seen) {
  TemplatePattern out;
  out.length = seen.length;
  for (uint32_t p = 0; p < seen.length;) {
    if (!seen.is_digit(p)) {
      out.literals[p] = seen.first[p];
      ++p;
      continue;
    }
    uint32_t end = p;
    while (end < seen.length && seen.is_digit(end)) ++end;
    const std::optional<DigitKind> kind = seen.kind(p, end);
    if (!kind) return std::nullopt;
    add_run(*kind, end - p, &out.limbs);
    for (; p < end; ++p) out.digit_positions.push_back(static_cast<uint8_t>(p));
  }
  if (out.limbs.empty()) return std::nullopt;
  return out;
}

// Adds rows [begin, end). Returns false if lengths differ.
bool add_rows(const Values& values, uint32_t begin, uint32_t end,
              Positions* seen) {
  for (uint32_t i = begin; i < end; ++i) {
    const ByteSlice& s = values.slices[i];
    if (s.size == 0 && values.empty_is_null) continue;
    if (s.size != seen->length) return false;
    seen->add(s.data);
  }
  return true;
}

}  // namespace

std::optional<TemplatePattern> detect_template(const Values& values) {
  uint32_t first = 0;
  if (values.empty_is_null) {
    while (first < values.size && values.slices[first].size == 0) ++first;
  }
  if (first == values.size) return std::nullopt;
  const uint64_t length = values.slices[first].size;
  if (length == 0 || length > kMaxTemplateLength) return std::nullopt;
  Positions seen(values.slices[first]);
  const uint32_t sample = std::min(values.size, first + kSampleRows);
  if (!add_rows(values, first, sample, &seen) || !seen.possible()) {
    return std::nullopt;
  }
  if (!add_rows(values, sample, values.size, &seen)) return std::nullopt;
  return pattern_of(seen);
}

// ------------------------------------------------------------------ the head

void TemplatePattern::write(ByteBuffer* head) const {
  head->put_u8(static_cast<uint8_t>(length));
  uint8_t mask[kMaxTemplateLength / 8] = {};
  for (const uint8_t p : digit_positions) {
    mask[p / 8] = static_cast<uint8_t>(mask[p / 8] | 1u << (p % 8));
  }
  head->put_bytes(mask, div_ceil(length, 8));
  for (uint32_t p = 0; p < length; ++p) {
    if ((mask[p / 8] >> (p % 8) & 1) == 0) head->put_u8(literals[p]);
  }
  head->put_u8(static_cast<uint8_t>(limbs.size()));
  for (const TemplateLimb& limb : limbs) {
    head->put_u8(static_cast<uint8_t>(static_cast<uint32_t>(limb.kind) << 5 |
                                      limb.digits));
  }
}

Result<TemplatePattern> TemplatePattern::open(ByteReader* head) {
  TemplatePattern out;
  out.length = head->get_u8();
  if (out.length == 0 || out.length > kMaxTemplateLength) {
    return Status::corrupt("template of length " + std::to_string(out.length) +
                           "; 1 to 128 are possible");
  }
  const ByteSpan mask = head->get_bytes(div_ceil(out.length, 8));
  NIMBLE_RETURN_IF_ERROR(head->status("template"));
  for (uint32_t p = 0; p < out.length; ++p) {
    if ((mask[p / 8] >> (p % 8) & 1) != 0) {
      out.digit_positions.push_back(static_cast<uint8_t>(p));
    } else {
      out.literals[p] = head->get_u8();
    }
  }
  const uint32_t num_limbs = head->get_u8();
  uint32_t digits = 0;
  for (uint32_t i = 0; i < num_limbs && head->ok(); ++i) {
    const uint8_t b = head->get_u8();
    const TemplateLimb limb{static_cast<DigitKind>(b >> 5), b & 31u};
    if (limb.kind > DigitKind::kHexUpper || limb.digits == 0 ||
        limb.digits > max_digits(limb.kind)) {
      return Status::corrupt("a template limb of kind " +
                             std::to_string(b >> 5) + " cannot have " +
                             std::to_string(limb.digits) + " digits");
    }
    digits += limb.digits;
    out.limbs.push_back(limb);
  }
  NIMBLE_RETURN_IF_ERROR(head->status("template"));
  if (digits == 0 || digits != out.digit_positions.size()) {
    return Status::corrupt(
        "template has " + std::to_string(out.digit_positions.size()) +
        " digits, but its limbs have " + std::to_string(digits));
  }
  return out;
}

namespace {

bool is_digit(uint8_t c, DigitKind kind) {
  if (c >= '0' && c <= '9') return true;
  if (kind == DigitKind::kHexLower) return c >= 'a' && c <= 'f';
  return kind == DigitKind::kHexUpper && c >= 'A' && c <= 'F';
}

}  // namespace

bool TemplatePattern::fits(ByteSpan string) const {
  if (string.size() != length) return false;
  size_t digit = 0;  // index in digit_positions
  for (const TemplateLimb& limb : limbs) {
    for (uint32_t d = 0; d < limb.digits; ++d) {
      if (!is_digit(string[digit_positions[digit++]], limb.kind)) return false;
    }
  }
  digit = 0;
  for (uint32_t p = 0; p < length; ++p) {
    if (digit < digit_positions.size() && digit_positions[digit] == p) {
      ++digit;
    } else if (literals[p] != string[p]) {
      return false;
    }
  }
  return true;
}

DigitLayout::DigitLayout(const TemplatePattern& pattern) {
  const uint8_t* position = pattern.digit_positions.data();
  for (const TemplateLimb& limb : pattern.limbs) {
    const uint32_t words = (limb.digits + 7) / 8;
    limbs.push_back({limb, row_digits, words});
    uint32_t to = row_digits + 8 * words - limb.digits;
    for (uint32_t d = 0; d < limb.digits;) {
      const uint32_t begin = d;
      do {
        ++d;
      } while (d < limb.digits && d - begin < 16 &&
               position[d] == position[begin] + (d - begin));
      runs.push_back({static_cast<uint16_t>(to + begin), position[begin]});
    }
    position += limb.digits;
    row_digits += 8 * words;
  }
}

void TemplateParser::parse(const uint8_t* string, uint64_t* values) const {
  // Copies of 16 bytes. The next one overwrites the excess.
  uint8_t text[kMaxTemplateLength + 16];
  uint8_t digits[kMaxTemplateLength * 8 + 16];
  std::memcpy(text, string, length_);
  for (const DigitRun& run : layout_.runs) {
    std::memcpy(digits + run.in_digits, text + run.in_string, 16);
  }
  for (const LimbWords& limb : layout_.limbs) {
    const bool is_decimal = limb.limb.kind == DigitKind::kDecimal;
    const uint32_t missing = 8 * limb.words - limb.limb.digits;
    uint64_t mask = ~uint64_t{0} << (8 * missing);  // for the first word
    uint64_t value = 0;
    for (uint32_t w = 0; w < limb.words; ++w) {
      const uint64_t word = load<uint64_t>(digits + limb.from + 8 * w) & mask;
      value = is_decimal ? value * 100000000 + decimal_value(word)
                         : value << 32 | hex_value(word);
      mask = ~uint64_t{0};
    }
    *values++ = value;
  }
}

// ---------------------------------------------------------------- formatting

TemplateFormatter::TemplateFormatter(const TemplatePattern& pattern)
    : length_(pattern.length) {
  std::copy(pattern.literals.begin(), pattern.literals.end(),
            literals_.begin());
  const DigitLayout layout(pattern);
  row_digits_ = layout.row_digits;
  for (const LimbWords& words : layout.limbs) {
    uint64_t limit = 1;  // wraps to 0 for 16 hexadecimal digits
    for (uint32_t d = 0; d < words.limb.digits; ++d) {
      limit *= words.limb.kind == DigitKind::kDecimal ? 10 : 16;
    }
    fields_.push_back({words, limit});
  }
  add_pieces(pattern, layout);
}

void TemplateFormatter::add_pieces(const TemplatePattern& pattern,
                                   const DigitLayout& layout) {
  size_t next_digit = 0;
  size_t next_run = 0;
  for (uint32_t p = 0; p < length_;) {
    const uint32_t digit = next_digit < pattern.digit_positions.size()
                               ? pattern.digit_positions[next_digit]
                               : length_;
    if (p < digit) {
      pieces_.push_back(
          {true, static_cast<uint16_t>(p), static_cast<uint16_t>(p)});
      p = std::min(digit, p + 16);
      continue;
    }
    const DigitRun& run = layout.runs[next_run++];
    pieces_.push_back({false, run.in_digits, run.in_string});
    const uint32_t end = next_run < layout.runs.size()
                             ? layout.runs[next_run].in_string
                             : length_;
    for (; next_digit < pattern.digit_positions.size() &&
           pattern.digit_positions[next_digit] == p && p < end;
         ++p) {
      ++next_digit;
    }
  }
}

namespace {

// Number of rows formatted together.
constexpr size_t kRows = 32;

// Eight decimal digits for each of n numbers below 10^8.
NIMBLE_CLONES void eight_digits(const uint64_t* __restrict numbers, size_t n,
                                uint64_t* __restrict digits) {
  for (size_t i = 0; i < n; ++i) {
    const auto number = static_cast<uint32_t>(numbers[i]);
    const uint32_t high = number / 10000;
    const uint32_t low = number - high * 10000;
    digits[i] = four_digits(high) | uint64_t{four_digits(low)} << 32;
  }
}

// The last four digits, for numbers below 10^4.
NIMBLE_CLONES void last_digits(const uint64_t* __restrict numbers, size_t n,
                               uint64_t* __restrict digits) {
  for (size_t i = 0; i < n; ++i) {
    digits[i] = uint64_t{four_digits(static_cast<uint32_t>(numbers[i]))} << 32;
  }
}

}  // namespace

void TemplateFormatter::put_decimals(const Field& field, const uint64_t* values,
                                     size_t n, uint8_t* to) const {
  constexpr uint64_t kBase = 100000000;
  uint64_t left[kRows];
  uint64_t digits[kRows];
  const uint64_t* numbers = values;
  for (uint32_t w = field.words; w-- > 0;) {
    uint64_t low[kRows];
    if (w > 0) {
      for (size_t i = 0; i < n; ++i) {
        const uint64_t rest = numbers[i] / kBase;
        low[i] = numbers[i] - rest * kBase;
        left[i] = rest;
      }
    }
    const uint64_t* const now = w > 0 ? low : numbers;
    if (field.limb.digits <= 4) {
      last_digits(now, n, digits);
    } else {
      eight_digits(now, n, digits);
    }
    for (size_t i = 0; i < n; ++i) {
      store(to + i * row_digits_ + 8 * w, digits[i]);
    }
    numbers = left;
  }
}

bool TemplateFormatter::write_digits(const Field& field, const uint64_t* values,
                                     size_t n, uint8_t* digits) const {
  bool bad = false;
  for (size_t i = 0; i < n; ++i) bad |= values[i] > field.limit - 1;
  if (bad) return false;
  uint8_t* to = digits + field.from;
  if (field.limb.kind == DigitKind::kDecimal) {
    put_decimals(field, values, n, to);
    return true;
  }
  const uint64_t letters = field.limb.kind == DigitKind::kHexLower ? 39 : 7;
  for (size_t i = 0; i < n; ++i, to += row_digits_) {
    const uint64_t v = values[i];
    if (field.words == 2) store(to, hex_digits(v >> 32, letters));
    store(to + 8 * (field.words - 1), hex_digits(v, letters));
  }
  return true;
}

template <size_t N>
void TemplateFormatter::copy_pieces(const uint8_t* digits, size_t rows,
                                    uint8_t* out) const {
  const size_t n = N > 0 ? N : pieces_.size();
  const Piece* const pieces = pieces_.data();
  for (size_t i = 0; i < rows; ++i) {
    for (size_t k = 0; k < n; ++k) {
      const uint8_t* const base =
          pieces[k].is_literal ? literals_.data() : digits;
      std::memcpy(out + pieces[k].to, base + pieces[k].from, 16);
    }
    out += length_;
    digits += row_digits_;
  }
}

bool TemplateFormatter::format(const uint64_t* values, size_t stride, size_t n,
                               uint8_t* out) const {
  // Writes the digits of all rows before the copies, so that copies do not wait
  // for stores.
  uint8_t digits[kRows * kMaxTemplateLength * 8 + 16];
  for (size_t row = 0; row < n; row += kRows) {
    const size_t rows = std::min(kRows, n - row);
    for (size_t k = 0; k < fields_.size(); ++k) {
      if (!write_digits(fields_[k], values + k * stride + row, rows, digits)) {
        return false;
      }
    }
    switch (pieces_.size()) {
      case 1:
        copy_pieces<1>(digits, rows, out);
        break;
      case 2:
        copy_pieces<2>(digits, rows, out);
        break;
      case 3:
        copy_pieces<3>(digits, rows, out);
        break;
      default:
        copy_pieces<0>(digits, rows, out);
    }
    out += rows * length_;
  }
  return true;
}

}  // namespace nimble
