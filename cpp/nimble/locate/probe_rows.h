// ProbeRows: converts the answer of an index to rows of a result. The rows of
// each key follow each other, in the order of the keys, with their row numbers
// in the file.
#pragma once

#include <optional>
#include <vector>

#include "nimble/lookup/index_lookup.h"
#include "nimble/stripe/row_reader.h"

namespace nimble {

struct ProbeRows {
  PlacedRows rows;
  std::vector<uint64_t> keys;  // the key of each row of the result
};

// All rows of the answer, in the order of the keys.
std::vector<uint64_t> rows_of(const LookupAnswer& answer);

// Returns nullopt if the result would have more than `max_rows` rows.
std::optional<ProbeRows> probe_rows(const LookupAnswer& answer,
                                    uint64_t max_rows);

}  // namespace nimble
