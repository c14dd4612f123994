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
  const std::vector<RowRange>& ranges() const { return ranges_; }
  // Whether ranges() has at most one range. There is then no bitmap.
  bool is_range() const { return bits_.empty(); }
  // REQUIRES: !is_range(); the row is in the file.
  bool contains(uint64_t row) const {
    return (bits_[row / 64] >> (row % 64) & 1) != 0;
  }

 private:
  void set_ranges(std::vector<RowRange> ranges, uint64_t file_rows);

  std::vector<RowRange> ranges_;
  std::vector<uint64_t> bits_;
  uint64_t size_ = 0;
};

}  // namespace nimble
