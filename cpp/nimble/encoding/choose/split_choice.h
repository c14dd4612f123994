// Where to split integers that combine several fields (split_int.h).
#pragma once

#include <vector>

#include "nimble/encoding/choose/value_sample.h"
#include "nimble/encoding/core/int_values.h"

namespace nimble {

// A split after the low `low_bits` bits.
struct IntSplit {
  uint32_t low_bits = 0;
  double bits_per_value = 64;  // estimated
};

// The split that makes the sampled values smallest. `blocks` has the minimum
// and maximum of each block of `values`.
IntSplit choose_int_split(const Values& values, const ValueSample& sample,
                          const std::vector<MinMax>& blocks);

}  // namespace nimble
