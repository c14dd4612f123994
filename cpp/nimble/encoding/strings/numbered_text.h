// numbered_text: strings that differ mostly in the decimal numbers within them,
// as log lines, addresses and JSON do. What is left of a string, with a byte in
// the place of every number, is its *shape*: few shapes make a dictionary, and
// the numbers are integers.
//
// Head:  count of numbers u8, 1 to 16 | child: shapes | for every number a
//        child: unsigned integers of 8 bytes
//
// In a shape a byte of 0 is the row's next number as it is written without
// zeros in front; d of 1 to 8 is the next number in d digits.
#pragma once

#include <optional>
#include <vector>

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Numbers of a string that are stored as such, at most.
inline constexpr uint32_t kMaxNumbers = 16;

// Which of the digits in some strings are numbers.
class NumberedText {
 public:
  // None where no digits differ from row to row, or a string has a byte that
  // would be taken for a number.
  static std::optional<NumberedText> find(const Values& values);

  // The n-th run of digits of a string.
  struct Place {
    bool is_number = false;
    uint32_t digits = 0;  // of all rows' runs there; 0: as many as it has
  };
  // Ends with the last that is a number.
  const std::vector<Place>& places() const { return places_; }
  uint32_t count() const { return count_; }

 private:
  std::vector<Place> places_;
  uint32_t count_ = 0;
};

// What numbered_text is likely to take, by a sample; infinite where shapes
// do not repeat.
double estimate_numbered_text(const Values& values);
Status encode_numbered_text(const Values& values, const NumberedText& text,
                            const EncodeContext& context, SegmentBuilder* out);
Result<std::unique_ptr<Decoder>> open_numbered_text(
    ByteReader* head, const DecodeContext& context);

}  // namespace nimble
