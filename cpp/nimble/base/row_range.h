// RowRange: a half-open range [begin, end) of file rows, and set operations on
// lists of ranges.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace nimble {

struct RowRange {
  uint64_t begin = 0;
  uint64_t end = 0;

  bool empty() const { return begin >= end; }
  uint64_t size() const { return empty() ? 0 : end - begin; }
  bool operator==(const RowRange&) const = default;
};

// Returns the ranges sorted and disjoint, without empty ranges, and with
// adjacent ranges joined.
std::vector<RowRange> merge_ranges(std::vector<RowRange> ranges);
// Both inputs and the output are in merged form.
std::vector<RowRange> intersect_ranges(const std::vector<RowRange>& a,
                                       const std::vector<RowRange>& b);
uint64_t count_rows(std::span<const RowRange> ranges);
// Removes up to `rows` rows from the front of ranges[*at ...] and returns them.
// Advances *at past the ranges that it used up.
std::vector<RowRange> take_front(std::vector<RowRange>* ranges, size_t* at,
                                 uint64_t rows);

}  // namespace nimble
