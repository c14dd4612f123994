// ProbeRows: what find_keys() found, as the rows of a result: every probe's
// rows in the order of the probes, and which rows of the file these are.
#pragma once

#include <optional>
#include <vector>

#include "nimble/lookup/find_keys.h"

namespace nimble {

struct ProbeRows {
  std::vector<uint64_t> rows;  // of the file, ascending, once each
  // For every row of the result: its place in `rows`, and the probe it answers.
  // `places` is empty where it would count 0, 1, 2, ...
  std::vector<uint64_t> places;
  std::vector<uint64_t> probes;
};

// Nothing where the result would have more than `max_rows` rows, and where the
// ranges are not disjoint, as in a damaged index they may be.
std::optional<ProbeRows> probe_rows(const FoundKeys& found, uint64_t max_rows);

}  // namespace nimble
