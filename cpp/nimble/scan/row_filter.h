// RowFilter: a filter over columns of one file, asked of encoded segments. A
// tree of tests with SQL's meaning: a row passes where the whole is true, and
// a test of a null is not.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nimble/base/row_range.h"
#include "nimble/encoding/core/predicate.h"
#include "nimble/open/open_file.h"
#include "nimble/stripe/stripe_reader.h"

namespace nimble {

// A question about one column, or several joined.
struct FilterNode {
  enum class Kind : uint8_t {
    kAnd,    // of children
    kOr,     // of children; without any it is false
    kTest,   // the value is not null and passes
    kNull,   // the column is null, or a struct above it is
    kValid,  // it is not
  };

  Kind kind = Kind::kAnd;
  std::vector<FilterNode> children;
  ColumnPath path;  // of the column
  Predicate test;   // of the column's value type

  // Filled in by RowFilter.
  uint32_t node = 0;
  std::vector<uint32_t> parents;
};

// Rows of one stripe that lie in one segment of its columns.
struct FilterWindow {
  uint64_t first_row = 0;  // file row of bit 0 of a selection
  uint32_t segment = 0;
  // Disjoint ascending file rows to look at, never none.
  std::vector<RowRange> ranges;

  uint64_t rows() const;
};

// The rows of one window that pass a filter.
class PassingRows {
 public:
  // Row i is file row `first_row` + rows()[i]; ascending.
  uint64_t first_row = 0;

  std::span<const uint32_t> rows() const {
    return {buffer_.as<uint32_t>(), buffer_.size() / sizeof(uint32_t)};
  }
  // Returns the address of the rows. Keeps the first ones.
  uint32_t* resize(size_t count) {
    buffer_.resize(count * sizeof(uint32_t));
    return buffer_.as<uint32_t>();
  }
  // Whether so many rows pass that most blocks between the first and the last
  // have one.
  bool is_dense() const;

 private:
  AlignedBuffer buffer_;
};

class RowFilter {
 public:
  // Fails where a column does not exist or its type cannot be tested; reads
  // the dictionaries of dictionary columns.
  static Result<std::shared_ptr<const RowFilter>> create(
      std::shared_ptr<const OpenFile> file, FilterNode root);
  // The type of values that a test of this field compares: of its values, or
  // of those its dictionary has. Null where they cannot be tested.
  static const Field* tested_field(const Field& field);

  const OpenFile& file() const { return *file_; }

  // Cuts ranges of rows into windows, in order. Loads groups.
  class Windows {
   public:
    // `ranges` disjoint and ascending.
    Windows(const OpenFile& file, std::vector<RowRange> ranges)
        : file_(file), ranges_(std::move(ranges)) {}
    // False at the end.
    Result<bool> next(FilterWindow* out);

   private:
    const OpenFile& file_;
    std::vector<RowRange> ranges_;
    size_t at_ = 0;
  };

  // About how long it takes to ask a row like `row`, one of the file.
  double test_nanos(uint64_t row) const;

  // The rows of the window that pass.
  Status select(const FilterWindow& window, PassingRows* out) const;
  // Adds their number to `count`.
  Status count(const FilterWindow& window, uint64_t* count) const;

 private:
  RowFilter() = default;
  Status resolve(FilterNode* node);
  Status resolve_dictionary(FilterNode* node) const;
  // Bit i of `selection` is row `window.first_row` + i.
  Status narrow(const FilterWindow& window,
                std::vector<uint64_t>* selection) const;
  Status apply(const FilterNode& node, const StripeReader& reader,
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
