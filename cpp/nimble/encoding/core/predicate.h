// Predicate: a test of single values. Decoder::filter() applies it to encoded
// segments; the kernels below apply it to decoded values.
//
// A selection is a bitmap of 64-bit words: bit i is row i of the segment. Tests
// only clear bits, so consecutive tests form an AND, and a later test can skip
// rows that an earlier one cleared.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nimble/encoding/core/values.h"

namespace nimble {

// Number of selection words per block.
inline constexpr uint32_t kSelectionWords = 1024 / 64;
// Opaque values wider than this are not tested.
inline constexpr uint32_t kMaxTestWidth = 64;

// Two's complement of 256 bits, lowest word first.
using WideInt = std::array<uint64_t, 4>;

// The constants that values of one kind are compared with. Bounds are
// inclusive.
template <class V>
struct Bounds {
  V low{};
  V high{};
  std::vector<V> set;  // ascending; low and high are its ends
};

// Bounds of byte strings. A missing bound means no limit.
struct ByteBounds {
  std::optional<std::string> low;
  std::optional<std::string> high;
  bool low_inclusive = true;
  bool high_inclusive = true;
  std::vector<std::string> set;  // ascending
  std::string part;              // of Shape::kContains

  bool contains(std::string_view v) const;
};

struct Predicate {
  enum class Shape : uint8_t {
    kNothing,   // no value passes
    kRange,     // low <= value <= high
    kSet,       // value is in set
    kTable,     // integers seen as unsigned: table[value] is not 0
    kContains,  // byte strings: `part` is in the value
  };

  ValueType type;
  Shape shape = Shape::kNothing;
  bool negated = false;  // inverts the result

  // The type selects which bounds are used. kInt and kBool (0 and 1) use
  // `ints`, as 64-bit patterns. kFloat uses `floats`, signed kFixed uses
  // `wides`. Other types use `bytes`.
  Bounds<uint64_t> ints;
  Bounds<double> floats;
  Bounds<WideInt> wides;
  ByteBounds bytes;
  std::vector<uint8_t> table;  // values past its end do not pass

  // Returns a predicate for another type, with the same `negated`. The caller
  // sets the constants.
  Predicate derived(const ValueType& to) const {
    Predicate out;
    out.type = to;
    out.negated = negated;
    return out;
  }
  // Sets shape, low and high from ints.set.
  void set_int_bounds() {
    shape = ints.set.empty() ? Shape::kNothing : Shape::kSet;
    if (ints.set.empty()) return;
    ints.low = ints.set.front();
    ints.high = ints.set.back();
    if (ints.set.size() == 1) shape = Shape::kRange;
  }
  static Predicate is_true(bool wanted) {
    Predicate out;
    out.type = ValueType::boolean();
    out.shape = Shape::kRange;
    out.ints.low = out.ints.high = wanted ? 1 : 0;
    return out;
  }
};

// Whether values are compared as wide integers. Unsigned kFixed values are
// compared as byte strings.
inline bool is_wide_int(const ValueType& type) {
  return type.kind == ValueKind::kFixed && type.is_signed;
}
// Whether values of this type can be tested.
inline bool can_be_tested(const ValueType& type) {
  return type.kind != ValueKind::kFixed ||
         (is_wide_int(type) ? type.width == 16 || type.width == 32
                            : type.width <= kMaxTestWidth);
}
WideInt load_wide(const uint8_t* value, uint32_t width);
// Compares signed numbers: -1, 0 or 1.
int compare_wide(const WideInt& a, const WideInt& b);

// Whether this value passes. Fixed widths have test.type.width bytes.
bool passes(const Predicate& test, const uint8_t* value);
bool passes(const Predicate& test, std::string_view value);

// Clears each of the first n bits of `selection` if its value fails. `values`
// has fixed widths, or is a bitmap from bit 0.
// REQUIRES: n <= 1024.
void apply_predicate(const Predicate& test, const uint8_t* values, uint32_t n,
                     uint64_t* selection);
void apply_predicate(const Predicate& test, const BytesSink& values, uint32_t n,
                     uint64_t* selection);
// Tests value - low <= span, unsigned, for values of `width` bytes. All ranges
// of integers use this kernel.
void apply_span(const uint8_t* values, uint32_t width, uint32_t n, uint64_t low,
                uint64_t span, bool negated, uint64_t* selection);

// Writes the rows that the bits of `n` words select, plus `first`, to `rows`,
// in ascending order. Returns their number. REQUIRES: `rows` has room for all
// selected rows.
uint32_t selected_rows(const uint64_t* selection, uint32_t n, uint32_t first,
                       uint32_t* rows);
uint32_t count_selected(const uint64_t* selection, uint32_t n);

}  // namespace nimble
