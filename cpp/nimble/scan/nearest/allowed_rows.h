// AllowedRows: the rows of a file that a search may return.
#pragma once

#include <cstdint>
#include <vector>

#include "nimble/base/row_bitmap.h"
#include "nimble/scan/selection.h"

namespace nimble {

class AllowedRows {
 public:
  // Returns the rows of a part that pass its filter and are not in `deleted`.
  // `deleted` may be null. May block on reads.
  static Result<AllowedRows> of(const ScanPart& part, const RowBitmap* deleted);

  uint64_t size() const { return size_; }
  // Disjoint and ascending.
  std::vector<RowRange> ranges() const;
  // Whether the rows are stored as one range, or there are no rows.
  bool is_range() const { return bits_.empty(); }
  // REQUIRES: is_range().
  RowRange range() const { return range_; }
  // REQUIRES: !is_range(); the row is in the file.
  bool contains(uint64_t row) const {
    return (bits_[row / 64] >> (row % 64) & 1) != 0;
  }

 private:
  // REQUIRES: the ranges are disjoint.
  void add(RowRange range);
  void remove(uint64_t row);
  Status add_passing(const ScanPart& part);

  RowRange range_{0, 0};
  std::vector<uint64_t> bits_;  // by row of the file; empty if range_ is used
  uint64_t size_ = 0;
};

}  // namespace nimble
