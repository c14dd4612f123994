// RowSlices: cuts rows into slices, so that the size of a reply is checked
// before all rows are decoded.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "nimble/serve/served_table.h"

namespace nimble {

// Returns the slices in the order of a read. Borrows the rows.
class RowSlices {
 public:
  RowSlices(std::span<const FileRange> rows, bool reverse)
      : rows_(rows), reverse_(reverse) {}
  bool is_done() const { return at_ == rows_.size(); }
  // Returns at most `most` rows.
  std::vector<FileRange> next(uint64_t most) {
    std::vector<FileRange> out;
    while (most > 0 && at_ < rows_.size()) {
      const auto [file, range] = rows_[at_];
      const uint64_t n = std::min(most, range.size() - taken_);
      const uint64_t begin =
          reverse_ ? range.end - taken_ - n : range.begin + taken_;
      out.push_back({file, {begin, begin + n}});
      most -= n;
      taken_ += n;
      if (taken_ == range.size()) {
        ++at_;
        taken_ = 0;
      }
    }
    return out;
  }

 private:
  const std::span<const FileRange> rows_;
  const bool reverse_;
  size_t at_ = 0;
  uint64_t taken_ = 0;  // rows of the range at_
};

}  // namespace nimble
