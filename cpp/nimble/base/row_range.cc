#include "nimble/base/row_range.h"

#include <algorithm>

#include "nimble/base/compiler.h"

namespace nimble {

namespace {

bool is_merged(const std::vector<RowRange>& ranges) {
  bool merged = ranges.empty() || ranges[0].begin < ranges[0].end;
  for (size_t i = 1; i < ranges.size(); ++i) {
    merged &= ranges[i - 1].end < ranges[i].begin;
    merged &= ranges[i].begin < ranges[i].end;
  }
  return merged;
}

}  // namespace

std::vector<RowRange> merge_ranges(std::vector<RowRange> ranges) {
  if (is_merged(ranges)) return ranges;
  std::erase_if(ranges, [](const RowRange& r) { return r.empty(); });
  const auto is_before = [](const RowRange& a, const RowRange& b) {
    return a.begin < b.begin;
  };
  if (!std::is_sorted(ranges.begin(), ranges.end(), is_before)) {
    std::sort(ranges.begin(), ranges.end(), is_before);
  }
  size_t out = 0;
  for (const RowRange& r : ranges) {
    if (out > 0 && r.begin <= ranges[out - 1].end) {
      ranges[out - 1].end = std::max(ranges[out - 1].end, r.end);
    } else {
      ranges[out++] = r;
    }
  }
  ranges.resize(out);
  return ranges;
}

std::vector<RowRange> intersect_ranges(const std::vector<RowRange>& a,
                                       const std::vector<RowRange>& b) {
  std::vector<RowRange> out;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const RowRange r{std::max(a[i].begin, b[j].begin),
                     std::min(a[i].end, b[j].end)};
    if (!r.empty()) out.push_back(r);
    if (a[i].end < b[j].end) {
      ++i;
    } else {
      ++j;
    }
  }
  return out;
}

NIMBLE_CLONES uint64_t count_rows(std::span<const RowRange> ranges) {
  uint64_t n = 0;
  for (const RowRange& r : ranges) n += r.size();
  return n;
}

std::vector<RowRange> take_front(std::vector<RowRange>* ranges, size_t* at,
                                 uint64_t rows) {
  const auto first = ranges->begin() + static_cast<ptrdiff_t>(*at);
  auto it = first;
  for (; it != ranges->end() && it->size() <= rows; ++it) rows -= it->size();
  std::vector<RowRange> out(first, it);
  *at += out.size();
  if (it != ranges->end() && rows > 0) {
    out.push_back({it->begin, it->begin + rows});
    it->begin += rows;
  }
  return out;
}

}  // namespace nimble
