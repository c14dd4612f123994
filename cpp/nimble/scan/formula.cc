#include "nimble/scan/formula.h"

#include <cmath>

#include "nimble/base/compiler.h"
#include "nimble/encoding/core/encoding.h"

namespace nimble {
namespace {

using Kind = Formula::Term::Kind;
using Wide = __int128;
using UnsignedWide = unsigned __int128;

// Bounds are doubles, rounded up by less than one part in 2^40.
constexpr double kRounding = 1 + 0x1p-40;
constexpr double kMostInt64 = 0x1p63;
// Maximum size of one value of a column.
constexpr size_t kMostBytes = 16;

template <class Int>
NIMBLE_ALWAYS_INLINE void combine_of(Kind kind, const Int* __restrict right,
                                     uint32_t n, Int* __restrict left) {
  switch (kind) {
    case Kind::kAdd:
      for (uint32_t i = 0; i < n; ++i) left[i] += right[i];
      return;
    case Kind::kSubtract:
      for (uint32_t i = 0; i < n; ++i) left[i] -= right[i];
      return;
    default:
      for (uint32_t i = 0; i < n; ++i) left[i] *= right[i];
  }
}

NIMBLE_CLONES void combine(Kind kind, const int64_t* right, uint32_t n,
                           int64_t* left) {
  combine_of(kind, right, n, left);
}
// Decimals beyond the precision of their type may overflow. Unsigned integers
// wrap; overflow of signed integers would be undefined.
void combine(Kind kind, const Wide* right, uint32_t n, Wide* left) {
  combine_of(kind, reinterpret_cast<const UnsignedWide*>(right), n,
             reinterpret_cast<UnsignedWide*>(left));
}

// Copies integers and returns a number whose bits cover their magnitudes.
template <class From, class Int>
NIMBLE_ALWAYS_INLINE Int copy_of(const uint8_t* __restrict from, uint32_t n,
                                 Int* __restrict to) {
  Int bits = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const Int v = static_cast<Int>(load<From>(from + i * sizeof(From)));
    bits |= v < 0 ? ~v : v;
    to[i] = v;
  }
  return bits;
}

template <class Int>
NIMBLE_ALWAYS_INLINE Int copy_ints(const ValueType& type, const uint8_t* from,
                                   uint32_t n, Int* to) {
  switch (type.width) {
    case 1:
      return type.is_signed ? copy_of<int8_t>(from, n, to)
                            : copy_of<uint8_t>(from, n, to);
    case 2:
      return type.is_signed ? copy_of<int16_t>(from, n, to)
                            : copy_of<uint16_t>(from, n, to);
    case 4:
      return type.is_signed ? copy_of<int32_t>(from, n, to)
                            : copy_of<uint32_t>(from, n, to);
    default:
      return copy_of<int64_t>(from, n, to);
  }
}

// Copies the lower halves of decimals. Sets `lost` if a value does not fit.
NIMBLE_CLONES int64_t copy_low_words(const uint8_t* __restrict from, uint32_t n,
                                     int64_t* __restrict to, bool* lost) {
  int64_t bits = 0, upper = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const auto v = load<int64_t>(from + 16 * i);
    upper |= load<int64_t>(from + 16 * i + 8) ^ (v >> 63);
    bits |= v ^ (v >> 63);
    to[i] = v;
  }
  *lost = upper != 0;
  return bits;
}

NIMBLE_CLONES int64_t copy_values(const ValueType& type, const uint8_t* from,
                                  uint32_t n, int64_t* to, bool* lost) {
  if (type.width == 16) return copy_low_words(from, n, to, lost);
  return copy_ints(type, from, n, to);
}
Wide copy_values(const ValueType& type, const uint8_t* from, uint32_t n,
                 Wide* to, bool* /*lost*/) {
  if (type.width == 16) return copy_of<Wide>(from, n, to);
  return copy_ints(type, from, n, to);
}

// Returns a test of the same range for integers of 16 bytes.
Predicate widened(const Predicate& test) {
  Predicate out = test.derived(ValueType::fixed(16, true));
  out.shape = test.shape;
  const auto extend = [](uint64_t low) {
    const auto sign = static_cast<uint64_t>(static_cast<int64_t>(low) >> 63);
    return WideInt{low, sign, sign, sign};
  };
  constexpr auto kTop = uint64_t{1} << 63;
  out.wides.low =
      test.ints.low == kTop ? WideInt{0, 0, 0, kTop} : extend(test.ints.low);
  out.wides.high =
      test.ints.high == kTop - 1
          ? WideInt{~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}, kTop - 1}
          : extend(test.ints.high);
  return out;
}

}  // namespace

Status Formula::check(size_t num_columns) const {
  size_t depth = 0;
  for (const Term& term : terms) {
    if (term.kind == Kind::kColumn) {
      const bool exists = term.operand >= 0 &&
                          static_cast<uint64_t>(term.operand) < num_columns;
      if (!exists)
        return Status::invalid_argument(
            "a formula has an operand that is not one of its columns");
    }
    const bool is_operand =
        term.kind == Kind::kColumn || term.kind == Kind::kConstant;
    if (!is_operand && depth < 2) depth = 0;
    if (!is_operand && depth == 0) break;
    depth = is_operand ? depth + 1 : depth - 1;
  }
  if (depth == 1) return Status::ok();
  return Status::invalid_argument("a formula must have one result");
}

bool Formula::can_have(const ValueType& type) {
  if (type.kind == ValueKind::kFixed) return type.is_signed && type.width == 16;
  return type.kind == ValueKind::kInt && (type.is_signed || type.width < 8);
}

FormulaTest::FormulaTest(const Formula& formula, size_t num_columns,
                         const Predicate& test)
    : formula_(formula),
      types_(num_columns),
      test_(test),
      wide_test_(widened(test)) {
  for (size_t i = 0; i < num_columns; ++i) {
    columns_.emplace_back(size_t{kBlockValues} * kMostBytes);
  }
}

template <class Int>
bool FormulaTest::load_column(uint32_t n, size_t column, size_t slot) {
  bool lost = false;
  const Int bits = copy_values(types_[column], columns_[column].data(), n,
                               stack_[slot].as<Int>(), &lost);
  bounds_[slot] = (static_cast<double>(bits) + 1) * kRounding;
  return !lost;
}

template <class Int>
bool FormulaTest::compute(uint32_t n) {
  size_t depth = 0;
  for (const Formula::Term& term : formula_.terms) {
    if (term.kind == Kind::kColumn || term.kind == Kind::kConstant) {
      if (depth == stack_.size()) {
        stack_.emplace_back();
        bounds_.push_back(0);
      }
      stack_[depth].resize(size_t{kBlockValues} * sizeof(Int));
      if (term.kind == Kind::kConstant) {
        std::fill_n(stack_[depth].as<Int>(), n, Int{term.operand});
        bounds_[depth] =
            std::fabs(static_cast<double>(term.operand)) * kRounding;
      } else if (!load_column<Int>(n, static_cast<size_t>(term.operand),
                                   depth)) {
        return false;
      }
      ++depth;
      continue;
    }
    --depth;
    double& bound = bounds_[depth - 1];
    bound = term.kind == Kind::kMultiply ? bound * bounds_[depth]
                                         : bound + bounds_[depth];
    bound *= kRounding;
    if (sizeof(Int) == 8 && bound >= kMostInt64) return false;
    combine(term.kind, stack_[depth].as<Int>(), n, stack_[depth - 1].as<Int>());
  }
  return true;
}

void FormulaTest::apply(uint32_t n, uint64_t* selection) {
  const bool fits = compute<int64_t>(n);
  if (!fits) compute<Wide>(n);
  apply_predicate(fits ? test_ : wide_test_, stack_[0].data(), n, selection);
}

}  // namespace nimble
