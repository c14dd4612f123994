// Parts of Decoder::decode_ranges(): a loop over the blocks that contain the
// ranges, and the destination of the values.
#pragma once

#include <algorithm>

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Kernels may write up to this many bytes past the end of a range; the next
// range overwrites them.
inline constexpr uint64_t kRangeOvershoot = 128;

// The part of a range in the block that begins at row `first`.
inline RowRange in_block(const RowRange& range, uint64_t first) {
  return {std::max(range.begin, first),
          std::min(range.end, first + kBlockValues)};
}

// Writes the values of ranges to consecutive positions. Not thread-safe.
class RangeOutput {
 public:
  RangeOutput(const Decoder& decoder, const SegmentBody& body,
              const Output& out)
      : decoder_(decoder), body_(body), out_(out) {}

  // Decodes ranges as Decoder::decode_ranges() does. If the ranges leave few
  // gaps in a full block, calls block(first, ranges, &to) -> Status, where
  // `first` is the block's first row. block() writes the ranges' values at `to`
  // and moves `to` to their end. It may write kRangeOvershoot bytes more.
  template <class Block>
  Status decode(std::span<const RowRange> ranges, const Block& block);
  // Decodes a block through a scratch buffer that fits in the L1 cache.
  Status decode_block(uint64_t first, std::span<const RowRange> ranges);
  Status decode_rows(uint64_t begin, uint64_t end) {
    const Output to = next(end - begin);
    return decoder_.decode(body_, static_cast<uint32_t>(begin),
                           static_cast<uint32_t>(end), to);
  }

 private:
  // The destination of the next n values.
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
  // Decoding more rows of a block than this takes as long as decoding all of
  // it. Starting a range takes as long as decoding a few rows.
  constexpr uint64_t kFewValues = 64;
  // Values after a block, up to this row, are overwritten later.
  uint64_t most = 0;
  uint64_t behind = 0;
  for (size_t i = ranges.size(); i > 0 && behind < kRangeOvershoot; --i) {
    const uint64_t n = std::min(ranges[i - 1].size(), kRangeOvershoot - behind);
    behind += n;
    if (behind == kRangeOvershoot) most = ranges[i - 1].end - n;
  }
  uint64_t row = 0;  // earlier rows are done
  for (size_t i = 0; i < ranges.size();) {
    const uint64_t begin = std::max(row, ranges[i].begin);
    const uint64_t first = (ranges[i].end - 1) / kBlockValues * kBlockValues;
    if (begin < first) {
      NIMBLE_RETURN_IF_ERROR(decode_rows(begin, first));
      row = first;
      continue;
    }
    // Collects the ranges with rows in the block where this range ends.
    const uint64_t stop = first + kBlockValues;
    uint64_t alone = 0;  // cost of decoding the ranges one by one, in values
    size_t j = i;
    for (; j < ranges.size() && ranges[j].begin < stop; ++j) {
      if (alone >= kBlockValues) continue;
      const uint64_t n = in_block(ranges[j], first).size();
      alone += n > kFewValues ? kBlockValues : n + kFewValues;
    }
    const auto some = ranges.subspan(i, j - i);
    if (some.size() == 1 || alone < kBlockValues) {
      for (const RowRange& r : some) {
        const RowRange part = in_block(r, first);
        NIMBLE_RETURN_IF_ERROR(decode_rows(part.begin, part.end));
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
