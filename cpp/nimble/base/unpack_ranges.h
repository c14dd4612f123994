// Parts of a block of packed integers (bit_packing.h).
#pragma once

#include <span>

#include "nimble/base/row_range.h"

namespace nimble {

// Less than so many bytes behind the values are written, too.
inline constexpr uint64_t kUnpackOvershoot = 128;

// The values of ascending ranges of rows, which are not empty, one behind the
// other: as far as they lie in the full block that begins at row `first`.
// Returns where they end.
uint8_t* unpack_ranges32(uint32_t width, const uint8_t* packed, uint64_t first,
                         std::span<const RowRange> ranges, uint32_t base,
                         uint8_t* out);
uint8_t* unpack_ranges64(uint32_t width, const uint8_t* packed, uint64_t first,
                         std::span<const RowRange> ranges, uint64_t base,
                         uint8_t* out);

}  // namespace nimble
