#include "nimble/lookup/probe_rows.h"

namespace nimble {

std::optional<ProbeRows> probe_rows(const FoundKeys& found, uint64_t max_rows) {
  const size_t n = found.ranges.size();
  // Where in the result the rows of each probe begin.
  std::vector<uint64_t> starts(n);
  uint64_t total = 0;
  for (size_t i = 0; i < n; ++i) {
    starts[i] = total;
    const uint64_t size = found.ranges[i].size();
    if (size > max_rows - total) return std::nullopt;
    total += size;
  }
  ProbeRows out;
  out.rows.reserve(total);
  out.places.resize(total);
  out.probes.resize(total);
  RowRange last;
  bool in_place = true;
  for (const uint64_t probe : found.order) {
    const RowRange range = found.ranges[probe];
    if (range.empty()) continue;
    if (range != last) {
      if (range.begin < last.end) return std::nullopt;
      for (uint64_t r = range.begin; r < range.end; ++r) out.rows.push_back(r);
      last = range;
    }
    const uint64_t at = starts[probe], first = out.rows.size() - range.size();
    in_place &= at == first;
    for (uint64_t i = 0; i < range.size(); ++i) {
      out.places[at + i] = first + i;
      out.probes[at + i] = probe;
    }
  }
  if (in_place && out.rows.size() == total) out.places.clear();
  return out;
}

}  // namespace nimble
