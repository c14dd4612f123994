// What Decoder::decode_ranges() is made of: a walk over the blocks that ranges
// of rows lie in, and the place where their values go.
#pragma once

#include <algorithm>

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Part of a block that is decoded to where it belongs is followed by what comes
// behind it: kernels may write so many bytes of that before its turn.
inline constexpr uint64_t kRangeOvershoot = 128;

// The part of a range in the block that begins at row `first`.
inline RowRange in_block(const RowRange& range, uint64_t first) {
  return {std::max(range.begin, first),
          std::min(range.end, first + kBlockValues)};
}

// Puts the values of ranges one behind the other.
class RangeOutput {
 public:
  RangeOutput(const Decoder& decoder, const SegmentBody& body,
              const Output& out)
      : decoder_(decoder), body_(body), out_(out) {}

  // Decodes ranges as Decoder::decode_ranges() does. For those that lie, in
  // part, in the block that begins at row `first`, which is a whole one, calls
  // block(first, ranges, &to) -> Status, where they have few holes between
  // them. That puts their values of a fixed width at `to`, which it moves
  // behind them, and may write kRangeOvershoot bytes more.
  template <class Block>
  Status decode(std::span<const RowRange> ranges, const Block& block);
  // A block by way of a scratch buffer in the near cache.
  Status decode_block(uint64_t first, std::span<const RowRange> ranges);
  Status decode_rows(uint64_t begin, uint64_t end) {
    const Output to = next(end - begin);
    return decoder_.decode(body_, static_cast<uint32_t>(begin),
                           static_cast<uint32_t>(end), to);
  }

 private:
  // Where the next n values go.
  Output next(uint64_t n) {
    const Output to = out_;
    if (decoder_.type().kind == ValueKind::kBool) {
      out_.bit_offset += n;
    } else {
      out_.data += n * decoder_.type().width;
    }
    return to;
  }

  const Decoder& decoder_;
  const SegmentBody& body_;
  Output out_;
  AlignedBuffer scratch_;
};

template <class Block>
Status RangeOutput::decode(std::span<const RowRange> ranges,
                           const Block& block) {
  // More rows than a few of a block take the time of all of it; to begin takes
  // that of a few.
  constexpr uint64_t kFewValues = 64;
  // What is behind a block up to here has its values overwritten.
  uint64_t most = 0;
  uint64_t behind = 0;
  for (size_t i = ranges.size(); i > 0 && behind < kRangeOvershoot; --i) {
    const uint64_t n = std::min(ranges[i - 1].size(), kRangeOvershoot - behind);
    behind += n;
    if (behind == kRangeOvershoot) most = ranges[i - 1].end - n;
  }
  uint64_t row = 0;  // those before it are done
  for (size_t i = 0; i < ranges.size();) {
    const uint64_t begin = std::max(row, ranges[i].begin);
    const uint64_t first = (ranges[i].end - 1) / kBlockValues * kBlockValues;
    if (begin < first) {
      NIMBLE_RETURN_IF_ERROR(decode_rows(begin, first));
      row = first;
      continue;
    }
    // The ranges from this one on that have rows of the block it ends in.
    const uint64_t stop = first + kBlockValues;
    uint64_t alone = 0;  // what decoding them one by one takes, in values
    size_t j = i;
    for (; j < ranges.size() && ranges[j].begin < stop; ++j) {
      if (alone >= kBlockValues) continue;
      const uint64_t n = in_block(ranges[j], first).size();
      alone += n > kFewValues ? kBlockValues : n + kFewValues;
    }
    const auto some = ranges.subspan(i, j - i);
    if (some.size() == 1 || alone < kBlockValues) {
      for (const RowRange& r : some) {
        const RowRange mine = in_block(r, first);
        NIMBLE_RETURN_IF_ERROR(decode_rows(mine.begin, mine.end));
      }
    } else if (stop > most) {
      NIMBLE_RETURN_IF_ERROR(decode_block(first, some));
    } else {
      NIMBLE_RETURN_IF_ERROR(block(first, some, &out_.data));
    }
    row = stop;
    i = ranges[j - 1].end > stop ? j - 1 : j;
  }
  return Status::ok();
}

}  // namespace nimble
