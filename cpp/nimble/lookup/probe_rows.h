// ProbeRows: what an index found for many keys, as the rows of a result: every
// key's rows in the order of the keys, and which rows of the file these are.
#pragma once

#include <optional>
#include <vector>

#include "nimble/lookup/index_lookup.h"
#include "nimble/stripe/row_reader.h"

namespace nimble {

struct ProbeRows {
  PlacedRows rows;
  std::vector<uint64_t> keys;  // for every row of the result, the key it has
};

// Every row of the answer in the order of the keys.
std::vector<uint64_t> rows_of(const LookupAnswer& found);

// Nothing where the result would have more than `max_rows` rows.
std::optional<ProbeRows> probe_rows(const LookupAnswer& found,
                                    uint64_t max_rows);

}  // namespace nimble
