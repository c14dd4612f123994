// Chooses the symbols of an FSST table for a segment. Deterministic: the same
// strings give the same table.
#pragma once

#include <vector>

#include "nimble/encoding/core/encoding.h"
#include "nimble/encoding/symbols/fsst_table.h"

namespace nimble {

// Pieces of the strings of `values`, evenly distributed, about `max_bytes` in
// total. They borrow from the strings.
std::vector<ByteSlice> sample_strings(const Values& values, uint64_t max_bytes);

// Trains a table in rounds. Each round compresses the sample with the previous
// table, counts symbols and adjacent pairs, and keeps the 255 candidates that
// cover the most bytes.
FsstTable train_fsst(const std::vector<ByteSlice>& sample);

// Size of the strings' codes, and of the strings, in bytes.
struct FsstSizes {
  uint64_t compressed = 0;
  uint64_t raw = 0;
};
FsstSizes measure_fsst(const FsstTable& table,
                       const std::vector<ByteSlice>& strings);

}  // namespace nimble
