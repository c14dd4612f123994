// Predicate: a yes-or-no question about single values, asked of encoded
// segments (Decoder::filter), and the kernels that ask it of decoded ones.
//
// Rows are selected by bitmaps of 64-bit words: bit i of a selection is row i
// of the segment. Tests only clear bits, so tests after one another are an
// AND, and what an earlier one has cleared need not be looked at again.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nimble/encoding/core/values.h"

namespace nimble {

// Words of a selection that one block takes.
inline constexpr uint32_t kSelectionWords = 1024 / 64;
// Opaque values wider than this are not tested.
inline constexpr uint32_t kMaxTestWidth = 64;

// Two's complement of 256 bits, lowest word first.
using WideInt = std::array<uint64_t, 4>;

// What the values of one kind are compared with. All of it is closed.
template <class V>
struct Bounds {
  V low{};
  V high{};
  std::vector<V> set;  // ascending; low and high are its ends
};

// Byte strings: an open end has no string.
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
  bool negated = false;  // exactly the values pass that otherwise do not

  // One of these is used, by type: ints for kInt and kBool (0 and 1) as 64-bit
  // patterns, floats for kFloat, wides for signed kFixed, bytes for the rest.
  Bounds<uint64_t> ints;
  Bounds<double> floats;
  Bounds<WideInt> wides;
  ByteBounds bytes;
  std::vector<uint8_t> table;  // a value past its end does not pass

  // The same question of another type, which the caller fills in.
  Predicate derived(const ValueType& to) const {
    Predicate out;
    out.type = to;
    out.negated = negated;
    return out;
  }
  // From ints.set: shape, low and high.
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

// What is compared where: kFixed values that are not signed are byte strings.
inline bool is_wide_int(const ValueType& type) {
  return type.kind == ValueKind::kFixed && type.is_signed;
}
// Can values of this type be tested?
inline bool can_be_tested(const ValueType& type) {
  return type.kind != ValueKind::kFixed ||
         (is_wide_int(type) ? type.width == 16 || type.width == 32
                            : type.width <= kMaxTestWidth);
}
WideInt load_wide(const uint8_t* value, uint32_t width);
// -1, 0 or 1 in the order of signed numbers.
int compare_wide(const WideInt& a, const WideInt& b);

// Does this one value pass? Fixed widths: test.type.width bytes.
bool passes(const Predicate& test, const uint8_t* value);
bool passes(const Predicate& test, std::string_view value);

// Clears those of the first n bits of `selection` whose value fails;
// n <= 1024. `values`: fixed widths, or a bitmap from bit 0.
void apply_predicate(const Predicate& test, const uint8_t* values, uint32_t n,
                     uint64_t* selection);
void apply_predicate(const Predicate& test, const BytesSink& values, uint32_t n,
                     uint64_t* selection);
// Value - low <= span, unsigned, for values of `width` bytes: the kernel that
// ranges come down to.
void apply_span(const uint8_t* values, uint32_t width, uint32_t n, uint64_t low,
                uint64_t span, bool negated, uint64_t* selection);

// The rows that the bits of `n` words select, ascending, `first` added.
// Returns their number; `rows` has room for it.
uint32_t selected_rows(const uint64_t* selection, uint32_t n, uint32_t first,
                       uint32_t* rows);
uint32_t count_selected(const uint64_t* selection, uint32_t n);

}  // namespace nimble
