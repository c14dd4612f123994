// Distributes consecutive values to the rows that have them.
#pragma once

#include <cstdint>

namespace nimble {

// Writes rows [from, to) of the bitmap `where` to `out`: the next of `values`
// if the row's bit is set, else the value at `common`. Does not write past the
// last row.
// REQUIRES: AlignedBuffer::kSlack bytes after the last value are readable.
void spread_values(const uint64_t* where, uint32_t from, uint32_t to,
                   uint32_t width, const uint8_t* values, const uint8_t* common,
                   uint8_t* out);

}  // namespace nimble
