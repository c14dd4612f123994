// Sums of table values over the codes of rows: the inner loop of a search. All
// versions return the same integers.
#pragma once

#include <cstdint>
#include <span>

namespace nimble {

// Stores one sum for each row of `num_blocks` blocks. A block of `codes` has
// padded / 8 groups of 32 bytes, one byte per row. Each group has two tables of
// 16 values. The low half of a byte is an index into the first table, the high
// half into the second.
// REQUIRES: table values are at most 127; padded <= kMaxVectorDimensions.
using SumCodes = void (*)(const uint8_t* codes, uint64_t num_blocks,
                          uint32_t padded, const uint8_t* table,
                          uint32_t* sums);

// The fastest version for this processor.
void sum_codes(const uint8_t* codes, uint64_t num_blocks, uint32_t padded,
               const uint8_t* table, uint32_t* sums);

// All versions that this processor can run, with their names. For tests.
struct NamedSumCodes {
  const char* name;
  SumCodes function;
};
std::span<const NamedSumCodes> sum_codes_versions();

}  // namespace nimble
