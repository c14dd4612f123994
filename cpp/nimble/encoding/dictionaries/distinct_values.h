// DistinctValues: the distinct values of a stream and a code for every row,
// with bounds that end the work early where there are too many.
#pragma once

#include <vector>

#include "nimble/encoding/core/encoding.h"

namespace nimble {

struct DistinctLimits {
  uint32_t max_values = 65536;
  uint64_t max_bytes = UINT64_MAX;  // of all distinct values
};

class DistinctValues {
 public:
  // False where a limit was passed; nothing may be asked then. Fixed widths
  // and kBytes.
  bool build(const Values& values, const DistinctLimits& limits) {
    const bool done = collect(values, limits);
    if (done) sort(values);
    return done;
  }
  // The same without an order: distinct() has them as they were met, until
  // sort() of the same values.
  bool collect(const Values& values, const DistinctLimits& limits);
  void sort(const Values& values);

  uint32_t count() const { return static_cast<uint32_t>(rows_.size()); }
  // Distinct values in ascending order (ints by value, all else by bytes) until
  // order_by_frequency(), as Values that borrow from this object and the input.
  Values distinct() const;
  // Renumbers: the most frequent value first, of equally frequent ones the
  // smaller. Then the codes of rare values are large, and can be exceptions.
  void order_by_frequency();
  bool is_by_frequency() const { return is_by_frequency_; }
  // Code of every row: its value's place in distinct(). Unsigned integers of
  // code_width(count()) bytes; borrows from this object.
  Values codes() const;
  // The codes with others in their place, as integers of `width` bytes in
  // `data`.
  Values renumbered(const std::vector<uint32_t>& codes, uint32_t width,
                    std::vector<uint8_t>* data) const;
  // How many values are met first in this row or later.
  // Before order_by_frequency().
  uint32_t first_met_from(uint32_t row) const;

 private:
  bool add_small_ints(const Values& values, const DistinctLimits& limits);
  bool add_hashed(const Values& values, const DistinctLimits& limits);
  template <class Key>
  bool add_words(const Values& values, uint32_t most);
  void place(const Values& values, const std::vector<uint32_t>& order);
  void narrow();

  ValueType type_;
  std::vector<uint32_t> rows_;   // first row of each distinct value
  std::vector<uint32_t> codes_;  // of every row
  std::vector<uint8_t> narrow_codes_;
  std::vector<uint8_t> fixed_;  // the distinct values
  std::vector<ByteSlice> slices_;
  bool is_by_frequency_ = false;
};

// The bytes of a value that is not a boolean.
ByteSpan value_bytes(const Values& values, uint32_t row);
bool same_bytes(ByteSpan a, ByteSpan b);

// Codes of one byte number so many values.
inline constexpr uint32_t kMaxByteCodes = 256;
// Bits that all codes of `distinct` need at least, coded by frequency.
double code_entropy(const DistinctValues& distinct);

// Bytes of a code for `count` distinct values: 1, 2 or 4.
inline uint32_t code_width(uint64_t count) {
  return count <= 256 ? 1 : count <= 65536 ? 2 : 4;
}

}  // namespace nimble
