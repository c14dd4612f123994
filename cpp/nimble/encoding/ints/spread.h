// Values one after the other, to the rows that have them.
#pragma once

#include <cstdint>

namespace nimble {

// Writes rows [from, to) of the bitmap `where` to `out`: the next of `values`
// where a bit is set, else the value at `common`. AlignedBuffer::kSlack bytes
// behind the last value may be read; no byte behind the last row is written.
void spread_values(const uint64_t* where, uint32_t from, uint32_t to,
                   uint32_t width, const uint8_t* values, const uint8_t* common,
                   uint8_t* out);

}  // namespace nimble
