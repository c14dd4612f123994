// numbered_text: strings that differ mainly in the decimal numbers in them,
// such as log lines, addresses and JSON. The *shape* of a string is its text
// with one byte in place of each number. If there are few shapes, they are
// encoded as a dictionary. The numbers are encoded as integers.
//
// Head:  count of numbers u8, 1 to 16 | child: shapes | one child per number:
//        unsigned integers of 8 bytes
//
// In a shape, byte 0 stands for the row's next number, without leading zeros. A
// byte d of 1 to 8 stands for the next number, written with d digits.
#pragma once

#include <optional>
#include <vector>

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Maximum count of numbers per string that are stored as integers.
inline constexpr uint32_t kMaxNumbers = 16;

// The runs of digits in the strings of a segment, and which of them are stored
// as numbers.
class NumberedText {
 public:
  // Returns nullopt if no run of digits differs between rows, or if a string
  // contains a byte that would be mistaken for a number.
  static std::optional<NumberedText> find(const Values& values);

  // The n-th run of digits of a string.
  struct DigitRun {
    bool is_number = false;
    uint32_t digits = 0;  // same in all rows; 0: they differ
  };
  // The runs up to the last one that is stored as a number.
  const std::vector<DigitRun>& digit_runs() const { return digit_runs_; }
  uint32_t count() const { return count_; }

 private:
  std::vector<DigitRun> digit_runs_;
  uint32_t count_ = 0;
};

// Estimated size of numbered_text, from a sample. Infinite if shapes do not
// repeat.
double estimate_numbered_text(const Values& values);
// Encodes `values` and appends head and body to `out`.
Status encode_numbered_text(const Values& values, const NumberedText& text,
                            const EncodeContext& context, SegmentBuilder* out);
// REQUIRES: `head` is after the EncodingId byte.
Result<std::unique_ptr<Decoder>> open_numbered_text(
    ByteReader* head, const DecodeContext& context);

}  // namespace nimble
