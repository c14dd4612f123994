// decode_ranges: rows of a segment with holes between them, as rows that were
// deleted leave them; and what it is made of, a walk over the blocks that
// ranges lie in, and the place where their values go.
#pragma once

#include <algorithm>
#include <span>

#include "nimble/base/row_range.h"
#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Decodes the rows of ascending ranges, disjoint and not empty, one behind the
// other. Of a fixed width or bools, in a stable body. Blocks with few holes are
// decoded whole to a scratch buffer in the near cache, and what is wanted of
// them goes from there to where it belongs.
Status decode_ranges(const Decoder& decoder, const SegmentBody& body,
                     std::span<const RowRange> ranges, const Output& out);

// What a decoder is as well that can put such values where they belong at once.
class RangeDecoder {
 public:
  virtual Status decode_ranges(const SegmentBody& body,
                               std::span<const RowRange> ranges,
                               const Output& out) const = 0;

 protected:
  ~RangeDecoder() = default;
};

// decode_ranges() of any decoder, by way of the scratch buffer.
Status copy_ranges(const Decoder& decoder, const SegmentBody& body,
                   std::span<const RowRange> ranges, const Output& out);

// The part of a range in the block that begins at row `first`.
inline RowRange in_block(const RowRange& range, uint64_t first) {
  return {std::max(range.begin, first),
          std::min(range.end, first + kBlockValues)};
}

// Calls rows(begin, end) -> Status for rows that are worth decoding by
// themselves, and block(first, ranges) -> Status for the ranges that lie, in
// part, in the block that begins at row `first`, where it has few holes between
// them. All in ascending order.
template <class Rows, class Block>
Status for_range_blocks(std::span<const RowRange> ranges, const Rows& rows,
                        const Block& block) {
  // Values that are decoded in the time that it takes to begin with a range.
  constexpr uint64_t kBeginValues = 64;
  uint64_t row = 0;  // those before it are done
  for (size_t i = 0; i < ranges.size();) {
    const uint64_t begin = std::max(row, ranges[i].begin);
    const uint64_t first = (ranges[i].end - 1) / kBlockValues * kBlockValues;
    if (begin < first) {
      NIMBLE_RETURN_IF_ERROR(rows(begin, first));
      row = first;
      continue;
    }
    // The ranges from this one on that have rows of the block it ends in.
    const uint64_t stop = first + kBlockValues;
    uint64_t wanted = 0;
    size_t j = i;
    for (; j < ranges.size() && ranges[j].begin < stop; ++j) {
      wanted += in_block(ranges[j], first).size();
    }
    if (j - i > 1 && wanted + (j - i) * kBeginValues >= kBlockValues) {
      NIMBLE_RETURN_IF_ERROR(block(first, ranges.subspan(i, j - i)));
    } else {
      for (size_t k = i; k < j; ++k) {
        const RowRange r = in_block(ranges[k], first);
        NIMBLE_RETURN_IF_ERROR(rows(r.begin, r.end));
      }
    }
    row = stop;
    i = ranges[j - 1].end > stop ? j - 1 : j;
  }
  return Status::ok();
}

// Where the values of ranges go, one behind the other.
class RangeOutput {
 public:
  RangeOutput(const Decoder& decoder, const SegmentBody& body,
              const Output& out)
      : decoder_(decoder), body_(body), out_(out) {}

  Status decode(uint64_t begin, uint64_t end) {
    const Output to = next(end - begin);
    return decoder_.decode(body_, static_cast<uint32_t>(begin),
                           static_cast<uint32_t>(end), to);
  }
  // By way of a scratch buffer in the near cache.
  Status decode_block(uint64_t first, std::span<const RowRange> ranges);
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

 private:
  const Decoder& decoder_;
  const SegmentBody& body_;
  Output out_;
  AlignedBuffer scratch_;
};

}  // namespace nimble
