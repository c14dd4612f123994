// Part of a block of packed integers (bit_packing.h).
#pragma once

#include <cstdint>

namespace nimble {

// Values [begin, end) of a full block, and no byte behind them.
void unpack_range32(uint32_t width, const uint8_t* packed, uint32_t begin,
                    uint32_t end, uint32_t base, uint8_t* out);
void unpack_range64(uint32_t width, const uint8_t* packed, uint32_t begin,
                    uint32_t end, uint64_t base, uint8_t* out);

}  // namespace nimble
