// Running sums of differences, for encodings that keep these.
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Up to so many rows of a block are summed up to one after the other; of more,
// every row's sum is made.
inline constexpr size_t kFewSums = 64;

// Value rows[i] % kBlockValues of a block of unsigned words of `width` bytes,
// to value i of `out`, rows ascending: `first` and all differences from the
// second of the block's to the row's. Sums wrap.
void running_sums_at(uint32_t width, uint64_t first, const uint8_t* differences,
                     const uint32_t* rows, size_t n, uint8_t* out);

// Makes n unsigned words of `width` bytes their running sums, in place: word i
// becomes `before` and words 0 to i. Sums wrap.
void add_up(uint32_t width, uint64_t before, uint32_t n, uint8_t* words);

// What a decoder of integers is that adds up rows without making each of them:
// those of runs, or of one value mostly.
class SummedDecoder {
 public:
  virtual ~SummedDecoder() = default;
  // sums[i] is the sum of the values behind the first of a block up to that of
  // rows[i]; n > 0 ascending rows of one block. Sums wrap.
  virtual Status sum_to(const SegmentBody& body, const uint32_t* rows, size_t n,
                        uint64_t* sums) const = 0;
};

}  // namespace nimble
