// Unpacks parts of a block of packed integers (bit_packing.h).
#pragma once

#include <span>

#include "nimble/base/row_range.h"

namespace nimble {

// Unpacking may overwrite up to this many bytes after the last value.
inline constexpr uint64_t kUnpackOvershoot = 128;

// Unpack the values of row ranges to consecutive positions. Only rows of the
// full block that begins at row `first` are unpacked. Return the end of the
// output.
// REQUIRES: the ranges are ascending and not empty.
uint8_t* unpack_ranges32(uint32_t width, const uint8_t* packed, uint64_t first,
                         std::span<const RowRange> ranges, uint32_t base,
                         uint8_t* out);
uint8_t* unpack_ranges64(uint32_t width, const uint8_t* packed, uint64_t first,
                         std::span<const RowRange> ranges, uint64_t base,
                         uint8_t* out);

}  // namespace nimble
