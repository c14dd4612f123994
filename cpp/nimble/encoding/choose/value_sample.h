// ValueSample: statistics of 16 runs of 64 values, one from each sixteenth of a
// stream. Runs are used because differences and repetition depend on
// neighbours. Their positions are fixed because the same values must give the
// same file.
#pragma once

#include <vector>

#include "nimble/encoding/core/encoding.h"

namespace nimble {

inline constexpr uint32_t kSampleRuns = 16;
inline constexpr uint32_t kSampleRunValues = 64;

// Estimates the number of distinct values in a population, if `distinct` of
// `drawn` random values are distinct. Assumes equal frequencies; a skewed
// population has more.
double likely_distinct(uint32_t distinct, uint32_t drawn);

struct ValueSample {
  // First rows of the runs. A stream no larger than a sample is sampled
  // completely.
  std::vector<uint32_t> starts;
  uint32_t run_values = 0;
  uint32_t size = 0;
  uint32_t distinct = 0;
  uint32_t pairs = 0;    // adjacent sampled rows
  uint32_t changes = 0;  // pairs that differ
  uint32_t top_row = 0;  // a row with the top value
  uint32_t top_count = 0;

  // Estimated number of runs among `n` values.
  double runs(uint32_t n) const {
    return pairs == 0 ? 1 : 1.0 + double(n) * changes / pairs;
  }
  // Equal neighbours are not counted as drawn: they say nothing about later
  // values.
  double likely_distinct() const {
    return nimble::likely_distinct(distinct, size - (pairs - changes));
  }
  // Estimated number of values, out of `n`, that differ from the most frequent
  // one.
  double exceptions(uint32_t n) const {
    return size == 0 ? 0 : double(n) * (size - top_count) / size;
  }
};

// REQUIRES: values have a fixed width, and there is at least one.
ValueSample take_sample(const Values& values);
// Copies the sampled values to `*data`. The returned Values point into it.
Values sampled_values(const Values& values, const ValueSample& sample,
                      std::vector<uint8_t>* data);

}  // namespace nimble
