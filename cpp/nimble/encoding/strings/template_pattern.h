// The shape that all strings of a template_text segment share: at each
// position a literal byte or a digit. Digits, literals skipped, form *limbs*:
// unsigned numbers of up to 18 decimal or 16 hexadecimal digits.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Longer strings are not looked at.
inline constexpr uint32_t kMaxTemplateLength = 128;

// Persisted: never renumber.
enum class DigitKind : uint8_t { kDecimal = 0, kHexLower = 1, kHexUpper = 2 };

struct TemplateLimb {
  DigitKind kind = DigitKind::kDecimal;
  uint32_t digits = 0;

  bool operator==(const TemplateLimb&) const = default;
};

inline uint32_t max_digits(DigitKind kind) {
  return kind == DigitKind::kDecimal ? 18 : 16;
}

struct TemplatePattern {
  uint32_t length = 0;
  std::array<uint8_t, kMaxTemplateLength> literals{};  // 0 at digits
  std::vector<uint8_t> digit_positions;                // ascending
  std::vector<TemplateLimb> limbs;                     // take them in order

  void write(ByteBuffer* head) const;
  static Result<TemplatePattern> open(ByteReader* head);

  // Is this string of the pattern, byte for byte?
  bool fits(ByteSpan string) const;
  // Limb values of a string that fits, to `limbs`.
  void parse(const uint8_t* string, uint64_t* values) const;
};

// The pattern that all of `values` fit (empty slices aside where they are
// nulls), if there is one with at least one digit.
std::optional<TemplatePattern> detect_template(const Values& values);

// Writes strings of a pattern, many at a time.
class TemplateFormatter {
 public:
  explicit TemplateFormatter(const TemplatePattern& pattern);

  // Row i's limb k is values[k * stride + i]. Writes n strings and up to 15
  // bytes more. False where a value has more digits than its limb.
  bool format(const uint64_t* values, size_t stride, size_t n,
              uint8_t* out) const;

 private:
  // 16 bytes copied; what is too much is overwritten by the next piece.
  struct Piece {
    bool is_literal;
    uint16_t from;  // in literals_ or in the row's digits
    uint16_t to;
  };
  struct Field {
    TemplateLimb limb;
    uint64_t limit;  // values are below; 0 for 2^64
    uint32_t from;   // in the row's digits
    uint32_t words;  // of 8 digits, right-aligned
  };

  void add_pieces(const TemplatePattern& pattern);
  void put_decimals(const Field& field, const uint64_t* values, size_t n,
                    uint8_t* to) const;
  bool write_digits(const Field& field, const uint64_t* values, size_t n,
                    uint8_t* digits) const;
  // N pieces of each row; 0: any number.
  template <size_t N>
  void copy_pieces(const uint8_t* digits, size_t rows, uint8_t* out) const;

  uint32_t length_;
  uint32_t row_digits_ = 0;  // bytes of digits a row in the scratch
  std::array<uint8_t, kMaxTemplateLength + 16> literals_{};
  std::vector<Field> fields_;
  std::vector<Piece> pieces_;
};

}  // namespace nimble
