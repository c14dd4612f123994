// Chooses the symbols of an FSST table for a segment. Deterministic: the same
// strings give the same table.
#pragma once

#include <vector>

#include "nimble/encoding/core/encoding.h"
#include "nimble/encoding/symbols/fsst_table.h"

namespace nimble {

// Pieces of the strings of `values`, evenly spread over them, some
// `max_bytes` in all; views into the strings.
std::vector<ByteSlice> sample_strings(const Values& values, uint64_t max_bytes);

// Rounds of: compress the sample with the last table, count symbols and
// neighbouring pairs, keep the 255 candidates that cover the most bytes.
FsstTable train_fsst(const std::vector<ByteSlice>& sample);

// Bytes of codes for the strings, and bytes of the strings.
struct FsstSizes {
  uint64_t compressed = 0;
  uint64_t raw = 0;
};
FsstSizes measure_fsst(const FsstTable& table,
                       const std::vector<ByteSlice>& strings);

}  // namespace nimble
