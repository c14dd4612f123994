// RowRange: half-open [begin, end) of file rows, and the set operations that
// index answers, zone maps and filters are composed with.
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

// Sorted, non-empty, disjoint, with adjacent ranges joined.
std::vector<RowRange> merge_ranges(std::vector<RowRange> ranges);
// Both inputs and the output are in merged form.
std::vector<RowRange> intersect_ranges(const std::vector<RowRange>& a,
                                       const std::vector<RowRange>& b);
uint64_t count_rows(std::span<const RowRange> ranges);

}  // namespace nimble
