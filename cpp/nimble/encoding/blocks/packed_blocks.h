// PackedBlocks: finds and verifies the blocks of a bit-packed part. Used by all
// encodings of packed integers. Thread-safe.
//
// Body part: blocks of 1024 values, one after the other, without gaps.
//
//   SIZE                  MEANING
//   8                     checksum of the rest of the block
//   8 * fields            values of the encoding (base, first value, ...)
//   ceil(n * W / 8)       n values packed in W bits (base/bit_packing.h)
//
// Head: part, then W as u8 if all blocks have the same width. Otherwise 255,
// then one byte for the width of each block.
#pragma once

#include <vector>

#include "nimble/base/bit_packing.h"
#include "nimble/encoding/core/part.h"
#include "nimble/encoding/core/verified_blocks.h"

namespace nimble {

inline constexpr uint8_t kWidthPerBlock = 255;

class PackedBlocks {
 public:
  // Reads the head. `fields` 8-byte values are between the checksum and the
  // packed values. Fails if a width is above `max_width`.
  static Result<PackedBlocks> open(ByteReader* head,
                                   const DecodeContext& context,
                                   uint32_t fields, uint32_t max_width);

  uint32_t num_blocks() const { return num_blocks_; }
  uint32_t rows(uint32_t block) const { return block_rows(block, num_values_); }
  uint32_t width(uint32_t block) const {
    return widths_.empty() ? width_ : widths_[block];
  }
  // The bytes of the block, relative to the segment's body.
  ByteRange range(uint32_t block) const {
    const uint64_t begin = begin_of(block);
    return {begin, begin + block_bytes(block)};
  }
  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const {
    if (begin >= end) return;
    part_.append(start_of(begin / kBlockValues),
                 end_of((end - 1) / kBlockValues), out);
  }
  // Verifies the block. Sets `*fields` to the first byte after the checksum.
  Status read(const SegmentBody& body, uint32_t block,
              const uint8_t** fields) const {
    const ByteRange r = range(block);
    const uint8_t* p = body.data + r.begin;
    *fields = p + 8;
    return verified_.check(body, block,
                           {p + 8, static_cast<size_t>(r.end - r.begin - 8)},
                           load<uint64_t>(p));
  }
  // Prefetches the cache lines of the block's fields and of the row's packed
  // value.
  template <class Word>
  void prefetch(const SegmentBody& body, uint32_t row) const {
    const uint32_t block = row / kBlockValues;
    const uint8_t* p = body.data + begin_of(block);
    __builtin_prefetch(p);
    const uint8_t* packed = p + 8 * (1 + fields_);
    const uint32_t w = width(block), i = row % kBlockValues;
    if (rows(block) < kBlockValues) {
      __builtin_prefetch(packed + uint64_t{i} * w / 8);
      return;
    }
    const PackedPlace at = packed_place<Word>(w, i);
    __builtin_prefetch(packed + at.byte);
    if (at.shift + w > sizeof(Word) * 8) {
      __builtin_prefetch(packed + at.byte + 128);
    }
  }
  // "w=12" or "w=3..17".
  std::string describe() const;
  size_t memory_bytes() const {
    return widths_.capacity() + starts_.capacity() * 4 +
           verified_.memory_bytes() + part_.memory_bytes();
  }

 private:
  PackedBlocks(uint32_t num_values, uint32_t fields)
      : num_values_(num_values),
        num_blocks_(num_blocks_of(num_values)),
        fields_(fields),
        verified_(num_blocks_) {}

  uint64_t block_bytes(uint32_t block) const {
    return 8 * (1 + fields_) + packed_bytes(rows(block), width(block));
  }
  // Relative to the part.
  uint64_t start_of(uint32_t block) const {
    return widths_.empty() ? uint64_t{block} *
                                 (8 * (1 + fields_) + kBlockValues / 8 * width_)
                           : starts_[block];
  }
  uint64_t end_of(uint32_t block) const {
    return start_of(block) + block_bytes(block);
  }
  uint64_t begin_of(uint32_t block) const {
    return part_.place(start_of(block));
  }
  Status read_widths(ByteReader* head, uint32_t max_width);

  uint32_t num_values_;
  uint32_t num_blocks_;
  uint32_t fields_;
  uint32_t width_ = 0;
  Part part_;
  std::vector<uint8_t> widths_;   // empty if all are width_
  std::vector<uint32_t> starts_;  // relative to the part
  VerifiedBlocks verified_;
};

// The widths an encoder uses: one for all blocks, or one per block if that
// saves 5 % of the part.
class BlockWidths {
 public:
  static BlockWidths choose(std::vector<uint8_t> widths, uint32_t num_values,
                            uint32_t fields);
  static BlockWidths uniform(uint32_t width) {
    return BlockWidths({}, static_cast<uint8_t>(width));
  }
  uint32_t width(uint32_t block) const {
    return widths_.empty() ? width_ : widths_[block];
  }
  void write(ByteBuffer* head) const;
  // Size of a part with these widths, in bytes.
  uint64_t part_bytes(uint32_t num_values, uint32_t fields) const;

 private:
  BlockWidths(std::vector<uint8_t> widths, uint8_t width)
      : widths_(std::move(widths)), width_(width) {}

  std::vector<uint8_t> widths_;
  uint8_t width_;
};

}  // namespace nimble
