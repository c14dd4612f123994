#include "nimble/locate/probe_rows.h"

namespace nimble {
namespace {

// If the answer has a key order, returns its rows in ascending order without
// sorting. Returns nullopt if the ranges do not ascend in that order, which a
// damaged index may cause.
std::optional<PlacedRows> rows_in_key_order(const LookupAnswer& answer,
                                            const std::vector<uint64_t>& starts,
                                            uint64_t total) {
  PlacedRows out;
  out.rows.reserve(total);
  out.places.resize(total);
  RowRange last;
  bool in_place = true;
  for (const uint64_t key : answer.order) {
    const RowRange range = answer.ranges[key];
    if (range.empty()) continue;
    if (range != last) {
      if (range.begin < last.end) return std::nullopt;
      for (uint64_t r = range.begin; r < range.end; ++r) out.rows.push_back(r);
      last = range;
    }
    const uint64_t at = starts[key], first = out.rows.size() - range.size();
    in_place &= at == first;
    for (uint64_t i = 0; i < range.size(); ++i) out.places[at + i] = first + i;
  }
  if (in_place && out.rows.size() == total) out.places.clear();
  return out;
}

}  // namespace

std::vector<uint64_t> rows_of(const LookupAnswer& answer) {
  std::vector<uint64_t> out;
  for (const RowRange& range : answer.ranges) {
    for (uint64_t r = range.begin; r < range.end; ++r) out.push_back(r);
  }
  return out;
}

std::optional<ProbeRows> probe_rows(const LookupAnswer& answer,
                                    uint64_t max_rows) {
  ProbeRows out;
  std::vector<uint64_t> starts;  // first result row of each key
  starts.reserve(answer.ends.size());
  size_t at = 0;
  for (size_t key = 0; key < answer.ends.size(); ++key) {
    starts.push_back(out.keys.size());
    for (; at < answer.ends[key]; ++at) {
      const uint64_t size = answer.ranges[at].size();
      if (size > max_rows - out.keys.size()) return std::nullopt;
      out.keys.insert(out.keys.end(), size, key);
    }
  }
  std::optional<PlacedRows> rows;
  if (!answer.order.empty()) {
    rows = rows_in_key_order(answer, starts, out.keys.size());
  }
  out.rows = rows ? *std::move(rows) : place_rows(rows_of(answer));
  return out;
}

}  // namespace nimble
