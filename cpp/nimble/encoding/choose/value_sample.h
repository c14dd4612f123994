// ValueSample: what 16 runs of 64 values, one from each sixteenth of a stream,
// tell about it. Runs, because neighbours matter to differences and
// repetition; fixed places, because the same values must give the same file.
#pragma once

#include <vector>

#include "nimble/encoding/core/encoding.h"

namespace nimble {

inline constexpr uint32_t kSampleRuns = 16;
inline constexpr uint32_t kSampleRunValues = 64;

// How many distinct values there are, of which `distinct` were among so many
// `drawn` ones: were they equally frequent; of skewed ones there are more.
double likely_distinct(uint32_t distinct, uint32_t drawn);

struct ValueSample {
  // First rows of the runs; all values where there are no more than a sample.
  std::vector<uint32_t> starts;
  uint32_t run_values = 0;
  uint32_t size = 0;
  uint32_t distinct = 0;
  uint32_t pairs = 0;    // of neighbours
  uint32_t changes = 0;  // pairs that differ
  uint32_t top_row = 0;  // a row with the most frequent value
  uint32_t top_count = 0;

  // Estimates for `n` values.
  double runs(uint32_t n) const {
    return pairs == 0 ? 1 : 1.0 + double(n) * changes / pairs;
  }
  // That neighbours are equal says nothing of what comes later.
  double likely_distinct() const {
    return nimble::likely_distinct(distinct, size - (pairs - changes));
  }
  // Not the most frequent value.
  double exceptions(uint32_t n) const {
    return size == 0 ? 0 : double(n) * (size - top_count) / size;
  }
};

// Fixed widths; at least one value.
ValueSample take_sample(const Values& values);
// The sampled values themselves, one after the other, in `data`.
Values sampled_values(const Values& values, const ValueSample& sample,
                      std::vector<uint8_t>* data);

}  // namespace nimble
