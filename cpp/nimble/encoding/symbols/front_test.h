// FrontTest: a range test of strings that are stored as codes of symbols. The
// first code decides most strings. The others are decided by their first bytes.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "nimble/encoding/core/predicate.h"

namespace nimble {

// Tests that need more bytes of a string than this need the whole string.
inline constexpr uint64_t kMostDecidingBytes = 256;

// kOpen: the first code does not decide.
enum class FrontVerdict : uint8_t { kOpen, kFails, kPasses };

template <uint32_t kCodes>
class FrontTest {
 public:
  // Whether leading bytes decide the test.
  static bool can_decide(const Predicate& test) {
    return test.shape == Predicate::Shape::kRange &&
           bytes_for(test) <= kMostDecidingBytes;
  }
  // Borrows `test`.
  // REQUIRES: can_decide(test).
  explicit FrontTest(const Predicate& test)
      : test_(test), num_bytes_(bytes_for(test)) {}

  // Sets the bytes of a code. Codes without bytes are open.
  void set(uint32_t code, std::string_view bytes) {
    by_code_[code] = verdict(bytes);
  }
  FrontVerdict of(uint32_t code) const { return by_code_[code]; }
  // This many bytes of a string decide the test.
  uint64_t num_bytes() const { return num_bytes_; }
  // Tests a string of at most num_bytes(), or the front of a longer string.
  // REQUIRES: size <= num_bytes(). The front of a longer string has
  // num_bytes().
  bool passes_front(const uint8_t* bytes, uint64_t size) const {
    return passes(test_, {reinterpret_cast<const char*>(bytes), size});
  }

 private:
  // Whether all strings that begin with the given bytes are inside a bound.
  enum class Side : uint8_t { kInside, kOutside, kUnknown };

  // The bytes that decide the test. One byte more than the bound distinguishes
  // longer strings from equal ones.
  static uint64_t bytes_for(const Predicate& test) {
    const ByteBounds& b = test.bytes;
    return 1 + std::max(b.low ? b.low->size() : 0, b.high ? b.high->size() : 0);
  }

  static Side side_of_low(std::string_view front, std::string_view low,
                          bool inclusive) {
    const size_t n = std::min(front.size(), low.size());
    const int order = front.substr(0, n).compare(low.substr(0, n));
    if (order != 0) return order < 0 ? Side::kOutside : Side::kInside;
    if (front.size() < low.size()) return Side::kUnknown;
    const bool may_be_equal = front.size() == low.size();
    return may_be_equal && !inclusive ? Side::kUnknown : Side::kInside;
  }
  static Side side_of_high(std::string_view front, std::string_view high,
                           bool inclusive) {
    const size_t n = std::min(front.size(), high.size());
    const int order = front.substr(0, n).compare(high.substr(0, n));
    if (order != 0) return order > 0 ? Side::kOutside : Side::kInside;
    if (front.size() < high.size()) return Side::kUnknown;
    const bool may_be_equal = front.size() == high.size();
    return may_be_equal && inclusive ? Side::kUnknown : Side::kOutside;
  }

  FrontVerdict verdict(std::string_view front) const {
    const ByteBounds& b = test_.bytes;
    const Side low =
        b.low ? side_of_low(front, *b.low, b.low_inclusive) : Side::kInside;
    const Side high =
        b.high ? side_of_high(front, *b.high, b.high_inclusive) : Side::kInside;
    const bool is_outside = low == Side::kOutside || high == Side::kOutside;
    if (!is_outside && (low == Side::kUnknown || high == Side::kUnknown)) {
      return FrontVerdict::kOpen;
    }
    return is_outside == test_.negated ? FrontVerdict::kPasses
                                       : FrontVerdict::kFails;
  }

  const Predicate& test_;
  uint64_t num_bytes_;
  std::array<FrontVerdict, kCodes> by_code_{};
};

}  // namespace nimble
