// Running sums of differences.
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Up to this many rows of a block are summed one after the other. With more,
// the sums of all rows of the block are computed.
inline constexpr size_t kFewSums = 64;

// Decodes rows of a block of differences. Value i of `out` becomes `first` plus
// the block's differences 1 to rows[i] % kBlockValues. The words are unsigned,
// `width` bytes wide. Sums wrap.
// REQUIRES: `rows` are ascending and in one block.
void running_sums_at(uint32_t width, uint64_t first, const uint8_t* differences,
                     const uint32_t* rows, size_t n, uint8_t* out);

// Replaces n unsigned words of `width` bytes by their running sums, in place:
// word i becomes the sum of `before` and words 0 to i. Sums wrap.
void add_up(uint32_t width, uint64_t before, uint32_t n, uint8_t* words);

// Interface of integer decoders that can sum rows without decoding each of
// them: runs, or one common value with exceptions.
class SummedDecoder {
 public:
  virtual ~SummedDecoder() = default;
  // Sets sums[i] to the sum of the block's values 1 to rows[i] % kBlockValues.
  // Value 0 is not included. Sums wrap.
  // REQUIRES: n > 0; `rows` are ascending and in one block.
  virtual Status sum_to(const SegmentBody& body, const uint32_t* rows, size_t n,
                        uint64_t* sums) const = 0;
};

}  // namespace nimble
