// The pattern that all strings of a template_text segment share: each position
// has a literal byte or a digit. The digits, without the literals, form
// *limbs*: unsigned numbers of up to 18 decimal or 16 hexadecimal digits.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Longer strings do not use templates.
inline constexpr uint32_t kMaxTemplateLength = 128;

// Stored: never renumber.
enum class DigitKind : uint8_t { kDecimal = 0, kHexLower = 1, kHexUpper = 2 };

// A number formed by `digits` digits of a string. Literals between the digits
// are skipped.
struct TemplateLimb {
  DigitKind kind = DigitKind::kDecimal;
  uint32_t digits = 0;

  bool operator==(const TemplateLimb&) const = default;
};

inline uint32_t max_digits(DigitKind kind) {
  return kind == DigitKind::kDecimal ? 18 : 16;
}

// Literals, digit positions and limbs of a pattern.
struct TemplatePattern {
  uint32_t length = 0;
  std::array<uint8_t, kMaxTemplateLength> literals{};  // 0 at digits
  std::vector<uint8_t> digit_positions;                // ascending
  // Each limb uses the next positions, in order.
  std::vector<TemplateLimb> limbs;

  void write(ByteBuffer* head) const;
  static Result<TemplatePattern> open(ByteReader* head);

  // Whether this string matches the pattern.
  bool fits(ByteSpan string) const;
};

// The pattern that all of `values` match, with at least one digit. Ignores
// empty slices if they are nulls. Returns nullopt if there is no such pattern.
std::optional<TemplatePattern> detect_template(const Values& values);

// The digits of a limb as words of 8 digits. The first digit of a word is in
// its lowest byte. The first word may have fewer digits, in its highest bytes.
struct LimbWords {
  TemplateLimb limb;
  uint32_t from;   // offset in the digits of a row
  uint32_t words;  // per row
};

// Up to 16 adjacent digits of one limb in a string.
struct DigitRun {
  uint16_t in_digits;  // offset in the digits of a row
  uint16_t in_string;
};

// The positions of the digits of a pattern's strings, as words.
struct DigitLayout {
  explicit DigitLayout(const TemplatePattern& pattern);

  std::vector<LimbWords> limbs;
  std::vector<DigitRun> runs;  // in the order of the string
  uint32_t row_digits = 0;     // digit bytes per row
};

// Reads the limbs of strings. Thread-safe.
class TemplateParser {
 public:
  explicit TemplateParser(const TemplatePattern& pattern)
      : length_(pattern.length), layout_(pattern) {}

  // Writes the limbs of a string to `values`.
  // REQUIRES: the pattern fits the string.
  void parse(const uint8_t* string, uint64_t* values) const;

 private:
  uint32_t length_;
  DigitLayout layout_;
};

// Writes strings of a pattern, many at a time. Thread-safe.
class TemplateFormatter {
 public:
  explicit TemplateFormatter(const TemplatePattern& pattern);

  // Formats n strings. Limb k of row i is values[k * stride + i]. May write up
  // to 15 bytes after the strings. Returns false if a value has more digits
  // than its limb.
  bool format(const uint64_t* values, size_t stride, size_t n,
              uint8_t* out) const;

 private:
  // A copy of 16 bytes. The next piece overwrites the excess.
  struct Piece {
    bool is_literal;
    uint16_t from;  // in literals_, or in the row's digits
    uint16_t to;
  };
  struct Field : LimbWords {
    uint64_t limit;  // values are below it; 0 means 2^64
  };

  void add_pieces(const TemplatePattern& pattern, const DigitLayout& layout);
  void put_decimals(const Field& field, const uint64_t* values, size_t n,
                    uint8_t* to) const;
  bool write_digits(const Field& field, const uint64_t* values, size_t n,
                    uint8_t* digits) const;
  // Copies N pieces per row. If N is 0, copies any number.
  template <size_t N>
  void copy_pieces(const uint8_t* digits, size_t rows, uint8_t* out) const;

  uint32_t length_;
  uint32_t row_digits_ = 0;  // digit bytes per row
  std::array<uint8_t, kMaxTemplateLength + 16> literals_{};
  std::vector<Field> fields_;
  std::vector<Piece> pieces_;
};

}  // namespace nimble
