// RowFilter: a filter over columns of one file that is evaluated on encoded
// segments. It is a tree of tests with the semantics of SQL: a row passes if
// the tree is true, and a test of a null is not true. Thread-safe.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nimble/base/row_range.h"
#include "nimble/encoding/core/predicate.h"
#include "nimble/open/open_file.h"
#include "nimble/scan/formula.h"
#include "nimble/stripe/stripe_reader.h"

namespace nimble {

// A test of one column, or several joined tests.
struct FilterNode {
  enum class Kind : uint8_t {
    kAnd,    // of children
    kOr,     // of children; false without children
    kTest,   // the value is not null and passes
    kNull,   // the column is null, or a struct above it is
    kValid,  // neither the column nor a struct above it is null
    // The result of a formula passes. `children` has one kValid node for each
    // column of the formula.
    kFormula,
  };

  Kind kind = Kind::kAnd;
  std::vector<FilterNode> children;
  ColumnPath path;  // of the column
  Predicate test;   // of the column's value type, or of a formula's result
  Formula formula;

  // Set by RowFilter::create().
  uint32_t node = 0;
  std::vector<uint32_t> parents;
};

// Candidate rows of one stripe, all in the same segment of its columns.
struct FilterWindow {
  uint64_t first_row = 0;  // file row of bit 0 of a selection
  uint32_t segment = 0;
  // File rows to test: disjoint, ascending and not empty.
  std::vector<RowRange> ranges;

  uint64_t rows() const;
};

// The rows of one window that pass a filter.
class PassingRows {
 public:
  // Row i is file row `first_row` + rows()[i]. Rows are ascending.
  uint64_t first_row = 0;

  std::span<const uint32_t> rows() const {
    return {buffer_.as<uint32_t>(), buffer_.size() / sizeof(uint32_t)};
  }
  // Resizes to `count` rows and returns the address of the first. Keeps
  // existing rows.
  uint32_t* resize(size_t count) {
    buffer_.resize(count * sizeof(uint32_t));
    return buffer_.as<uint32_t>();
  }
  // Whether most blocks between the first and the last passing row contain a
  // passing row. Such blocks are decoded completely.
  bool is_dense() const;

 private:
  AlignedBuffer buffer_;
};

class RowFilter {
 public:
  // Fails if a column does not exist or if its type cannot be tested. Reads the
  // values of dictionary columns, so it may block.
  // REQUIRES: the results of formulas fit in 128 bits.
  static Result<std::shared_ptr<const RowFilter>> create(
      std::shared_ptr<const OpenFile> file, FilterNode root);
  // The field whose values a test of `field` compares: the field itself, or the
  // values of its dictionary. Null if the values cannot be tested.
  static const Field* tested_field(const Field& field);

  const OpenFile& file() const { return *file_; }

  // Cuts ranges of rows into windows, in order. Not thread-safe. Loads stripe
  // groups, so it may block.
  class Windows {
   public:
    // REQUIRES: `ranges` are disjoint and ascending. Borrows `file`.
    Windows(const OpenFile& file, std::vector<RowRange> ranges)
        : file_(file), ranges_(std::move(ranges)) {}
    // Returns false at the end.
    Result<bool> next(FilterWindow* out);

   private:
    const OpenFile& file_;
    std::vector<RowRange> ranges_;
    size_t at_ = 0;
  };

  // Estimated time to test one row in the stripe of `row`.
  double test_nanos(uint64_t row) const;

  // Stores the rows of the window that pass. select() and count() may block.
  Status select(const FilterWindow& window, PassingRows* out) const;
  // Adds the number of passing rows to `count`.
  Status count(const FilterWindow& window, uint64_t* count) const;

 private:
  RowFilter() = default;
  Status resolve(FilterNode* node);
  Status resolve_dictionary(FilterNode* node) const;
  Status check_formula(const FilterNode& node) const;
  // Sets bit i of `selection` if row `window.first_row` + i passes.
  Status narrow(const FilterWindow& window,
                std::vector<uint64_t>* selection) const;
  Status apply(const FilterNode& node, const StripeReader& reader,
               uint32_t segment, uint64_t* selection) const;
  Status apply_formula(const FilterNode& node, const StripeReader& reader,
                       uint32_t segment, uint64_t* selection) const;
  Status apply_or(const FilterNode& node, const StripeReader& reader,
                  uint32_t segment, uint64_t* selection) const;
  Status apply_null(const FilterNode& node, const StripeReader& reader,
                    uint32_t segment, uint64_t* selection) const;
  Status apply_valid(const FilterNode& node, const StripeReader& reader,
                     uint32_t segment, uint64_t* selection) const;

  std::shared_ptr<const OpenFile> file_;
  FilterNode root_;
};

}  // namespace nimble
