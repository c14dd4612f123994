// Formula: sums, differences and products of integer columns, such as `price *
// (100 - discount)`. Decimals are treated as integers. A column of text stands
// for its number of characters.
#pragma once

#include <span>
#include <vector>

#include "nimble/base/status.h"
#include "nimble/encoding/core/predicate.h"
#include "nimble/memory/aligned_buffer.h"

namespace nimble {

struct Formula {
  // Reverse Polish notation: an operand is pushed to a stack, an operator
  // replaces the upper two values.
  struct Term {
    enum class Kind : uint8_t {
      kColumn,
      kConstant,
      kAdd,
      kSubtract,
      kMultiply,
    };
    Kind kind = Kind::kConstant;
    int64_t operand = 0;  // the number of the column, or the constant
  };
  std::vector<Term> terms;

  // Fails if the terms do not leave one value, or if a column does not exist.
  Status check(size_t num_columns) const;
  // Whether a column of this type can be in a formula.
  static bool can_have(const ValueType& type);
};

// Tests the values of a formula, block by block. Computes with 64 bits if all
// results of a block fit, and otherwise with 128 bits. Not thread-safe.
class FormulaTest {
 public:
  // Borrows `formula`.
  // REQUIRES: formula.check(num_columns), and all results fit 128 bits. `test`
  // is a range of signed integers of 8 bytes.
  FormulaTest(const Formula& formula, size_t num_columns,
              const Predicate& test);

  // The caller stores up to kBlockValues values of a column at values(), and
  // their type at type().
  // REQUIRES: Formula::can_have(type).
  uint8_t* values(size_t column) { return columns_[column].data(); }
  ValueType* type(size_t column) { return &types_[column]; }
  // Tests the first n rows. Clears the bit of each row whose result fails.
  void apply(uint32_t n, uint64_t* selection);

 private:
  // Returns false if a result may not fit Int.
  template <class Int>
  bool compute(uint32_t n);
  template <class Int>
  bool load_column(uint32_t n, size_t column, size_t slot);

  const Formula& formula_;
  std::vector<ValueType> types_;
  Predicate test_, wide_test_;
  std::vector<AlignedBuffer> columns_;
  // The stack: values, and for each entry a bound of their magnitude.
  std::vector<AlignedBuffer> stack_;
  std::vector<double> bounds_;
};

}  // namespace nimble
