// DistinctValues: the distinct values of a stream, and a code for every row.
// Limits end the work early if there are too many values. Not thread-safe.
#pragma once

#include <vector>

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Limits for DistinctValues.
struct DistinctLimits {
  uint32_t max_values = 65536;
  uint64_t max_bytes = UINT64_MAX;  // of all distinct values
};

class DistinctValues {
 public:
  // Collects and sorts the values. Returns false if a limit was exceeded; other
  // functions must not be called then.
  // REQUIRES: the type is kBytes or has a fixed width.
  bool build(const Values& values, const DistinctLimits& limits) {
    const bool done = collect(values, limits);
    if (done) sort(values);
    return done;
  }
  // Like build(), but without sorting: until sort() is called with the same
  // values, distinct() has them in order of first occurrence.
  bool collect(const Values& values, const DistinctLimits& limits);
  void sort(const Values& values);

  uint32_t count() const { return static_cast<uint32_t>(rows_.size()); }
  // The distinct values in ascending order (integers by value, other types by
  // bytes), or by frequency after order_by_frequency(). Borrows from this
  // object and from the input.
  Values distinct() const;
  // Renumbers the values: the most frequent value first, and smaller values
  // first among equally frequent ones. Rare values then have large codes, which
  // can be exceptions.
  void order_by_frequency();
  bool is_by_frequency() const { return is_by_frequency_; }
  // The code of every row, an index into distinct(). Codes are unsigned
  // integers of code_width(count()) bytes. Borrows from this object.
  Values codes() const;
  // Maps each code c to codes[c]. The result has `width` bytes per code and
  // borrows from `*data`.
  Values renumbered(const std::vector<uint32_t>& codes, uint32_t width,
                    std::vector<uint8_t>* data) const;
  // Number of values that occur first in this row or later.
  // REQUIRES: order_by_frequency() was not called.
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
  std::vector<uint32_t> codes_;  // code of every row
  std::vector<uint8_t> narrow_codes_;
  std::vector<uint8_t> fixed_;  // the distinct values
  std::vector<ByteSlice> slices_;
  bool is_by_frequency_ = false;
};

// The bytes of a value that is not a boolean. Borrows from `values`.
ByteSpan value_bytes(const Values& values, uint32_t row);
bool same_bytes(ByteSpan a, ByteSpan b);

// Number of values that one-byte codes can distinguish.
inline constexpr uint32_t kMaxByteCodes = 256;
// Minimum total number of bits of all codes, coded by frequency.
double code_entropy(const DistinctValues& distinct);

// Bytes per code for `count` distinct values: 1, 2 or 4.
inline uint32_t code_width(uint64_t count) {
  return count <= 256 ? 1 : count <= 65536 ? 2 : 4;
}

}  // namespace nimble
