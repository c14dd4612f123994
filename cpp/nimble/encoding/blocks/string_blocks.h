// The layout of plain_bytes, fsst, phrases and zstd_trained: the byte strings
// of a segment in blocks of 2^k rows. k is chosen so that a block has at most a
// few KiB.
//
// block: checksum u64 | lengths, W bits per row, packed | bytes of the strings
// head:  k u8 | W u8 | length of every string, varint, if W = 0
//        | part | starts of blocks 1 .. n-1 (PackedOffsets)
//
// A lookup reads one block and sums at most 1024 packed lengths.
// docs/format/encodings_strings.md has the bytes.
#pragma once

#include <algorithm>
#include <functional>
#include <span>

#include "nimble/encoding/blocks/packed_offsets.h"
#include "nimble/encoding/core/encoding.h"
#include "nimble/encoding/core/part.h"
#include "nimble/encoding/core/verified_blocks.h"

namespace nimble {

inline constexpr uint32_t kMaxBlockShift = 10;
static_assert((1u << kMaxBlockShift) == kBlockValues);

inline uint64_t total_bytes(const Values& values) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < values.size; ++i) total += values.slices[i].size;
  return total;
}

// PackedLengths: the string lengths of any block of a segment. Thread-safe.
class PackedLengths {
 public:
  // Strings may have up to 2^48 bytes. The sum of 1024 such lengths is far
  // below 2^64.
  static constexpr uint32_t kMaxWidth = 48;

  // Chooses the width for `lengths`. Writes W, and the length if W = 0.
  static PackedLengths write(std::span<const uint64_t> lengths,
                             ByteBuffer* head);
  static Result<PackedLengths> open(ByteReader* head);

  uint64_t packed_size(uint32_t rows) const {
    return div_ceil(uint64_t{rows} * width_, 8);
  }
  uint32_t width() const { return width_; }
  uint64_t fixed_length() const { return fixed_; }

  // Returns the length of `row`. The 8-byte load ends with the value's last
  // byte, so that no byte after the packed lengths is read.
  // REQUIRES: 8 bytes before `packed` are readable (the checksum).
  uint64_t get(const uint8_t* packed, uint32_t row) const {
    if (width_ == 0) return fixed_;
    const uint64_t bit_end = (uint64_t{row} + 1) * width_;
    const uint64_t byte_end = (bit_end + 7) / 8;
    const uint64_t word = load<uint64_t>(packed - 8 + byte_end);
    return (word >> (64 - width_ - (byte_end * 8 - bit_end))) & mask_;
  }
  // Returns the sum of lengths [begin, end).
  uint64_t sum(const uint8_t* packed, uint32_t begin, uint32_t end) const {
    if (width_ == 0) return (end - begin) * fixed_;
    uint64_t total = 0;
    for (; fields_ > 1 && end - begin >= fields_; begin += fields_) {
      total += sum_fields(packed, begin);
    }
    for (; begin < end; ++begin) total += get(packed, begin);
    return total;
  }
  // Sets ends[i] to the sum of lengths 0 to i, for `rows` rows.
  void running_ends(const uint8_t* packed, uint32_t rows, uint64_t* ends) const;

 private:
  void set_width(uint32_t width);
  // Sums lengths [row, row + fields_), loaded as one word. Neighbours are added
  // into fields twice as wide, and a multiplication sums those.
  uint64_t sum_fields(const uint8_t* packed, uint32_t row) const {
    const uint64_t bit_end = (uint64_t{row} + fields_) * width_;
    const uint64_t byte_end = (bit_end + 7) / 8;
    const uint64_t word = load<uint64_t>(packed - 8 + byte_end) >>
                          (64 - fields_ * width_ - (byte_end * 8 - bit_end));
    const uint64_t pairs = (word & pairs_) + ((word >> width_) & pairs_);
    return ((pairs * ones_) >> ((fields_ - 2) * width_)) &
           (mask_ | mask_ << width_);
  }

  uint32_t width_ = 0;
  uint32_t fields_ = 0;  // lengths summed at once: even, or 0
  uint64_t mask_ = 0;
  uint64_t fixed_ = 0;
  uint64_t pairs_ = 0;  // mask of every other field
  uint64_t ones_ = 0;   // lowest bit of each of those fields
};

// Steps through one block's lengths in ascending row order. Borrows both
// arguments.
class LengthCursor {
 public:
  LengthCursor(const PackedLengths& lengths, const uint8_t* packed)
      : lengths_(lengths), packed_(packed) {}

  // Moves to `row`.
  // REQUIRES: `row` is not below the current row.
  void seek(uint32_t row) {
    begin_ += lengths_.sum(packed_, row_, row);
    row_ = row;
    length_ = lengths_.get(packed_, row);
  }
  uint64_t begin() const { return begin_; }
  uint64_t length() const { return length_; }

 private:
  const PackedLengths& lengths_;
  const uint8_t* packed_;
  uint32_t row_ = 0;
  uint64_t begin_ = 0;
  uint64_t length_ = 0;
};

// One verified block. The pointers are valid as long as the segment's body.
struct StringBlock {
  const uint8_t* packed = nullptr;  // the lengths
  const uint8_t* bytes = nullptr;
  uint64_t size = 0;  // bytes available at `bytes`
  uint32_t first_row = 0;
  uint32_t rows = 0;
};

// StringBlocks: finds and verifies the blocks of a decoder. Thread-safe.
class StringBlocks {
 public:
  // Reads a head that write_string_blocks() or write_packed_blocks() wrote.
  // `holds_strings` says whether the lengths add up to the size of a block's
  // bytes.
  static Result<StringBlocks> open(ByteReader* head,
                                   const DecodeContext& context,
                                   bool holds_strings = true);

  uint32_t num_blocks() const { return num_blocks_; }
  uint32_t shift() const { return shift_; }  // blocks of 2^shift rows
  uint32_t block_of(uint32_t row) const { return row >> shift_; }
  uint32_t first_row(uint32_t block) const { return block << shift_; }
  uint32_t rows(uint32_t block) const {
    return std::min(1u << shift_, num_rows_ - first_row(block));
  }
  const PackedLengths& lengths() const { return lengths_; }
  uint64_t part_size() const { return part_.size(); }

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const;
  // Locates, bounds-checks and verifies block `index`.
  Status read(const SegmentBody& body, uint32_t index, StringBlock* out) const;
  // Implement Decoder::decode and Decoder::gather for strings.
  // decode_block(block, from, to, at) -> Status appends strings [from, to) of a
  // block to the sink. String `from` becomes value `at` of the sink.
  // append(bytes, row) -> Status appends one string's bytes.
  template <class F>
  Status decode(const SegmentBody& body, uint32_t begin, uint32_t end,
                BytesSink* sink, F&& decode_block) const {
    if (begin >= end) return Status::ok();
    uint64_t at = sink->add_values(end - begin);
    for (uint32_t b = block_of(begin); b <= block_of(end - 1); ++b) {
      StringBlock block;
      NIMBLE_RETURN_IF_ERROR(read(body, b, &block));
      const uint32_t from = std::max(begin, block.first_row) - block.first_row;
      const uint32_t to = std::min(end - block.first_row, block.rows);
      NIMBLE_RETURN_IF_ERROR(decode_block(block, from, to, at));
      at += to - from;
    }
    return Status::ok();
  }
  template <class F>
  Status gather(const SegmentBody& body, const uint32_t* rows, size_t count,
                BytesSink* sink, F&& append) const;
  // Like gather(), for blocks whose lengths do not count bytes: append(block,
  // begin, length) -> Status.
  template <class F>
  Status gather_codes(const SegmentBody& body, const uint32_t* rows,
                      size_t count, BytesSink* sink, F&& append) const;
  // Prefetches the row's lengths and the approximate position of its bytes.
  void prefetch(const SegmentBody& body, uint32_t row) const;
  // Fills ends[0 .. block.rows) and verifies that the last end is block.size.
  Status read_ends(const StringBlock& block, uint64_t* ends) const;
  // Returns text like "rows=256 w=6", for describe().
  std::string describe() const;
  size_t memory_bytes() const {
    return starts_.memory_bytes() + verified_.memory_bytes() +
           part_.memory_bytes();
  }

 private:
  StringBlocks(uint32_t num_rows, uint32_t shift)
      : num_rows_(num_rows),
        shift_(shift),
        num_blocks_(static_cast<uint32_t>(div_ceil(num_rows, 1u << shift))),
        verified_(num_blocks_) {}

  // Offset in the part. Block n "starts" at the part's end.
  uint64_t start_of(uint32_t index) const {
    if (index == 0) return 0;
    return index < num_blocks_ ? starts_.get(index - 1) : part_.size();
  }

  uint32_t num_rows_;
  uint32_t shift_;
  uint32_t num_blocks_;
  Part part_;
  PackedLengths lengths_;
  PackedOffsets starts_;
  VerifiedBlocks verified_;
};

template <class F>
Status StringBlocks::gather_codes(const SegmentBody& body, const uint32_t* rows,
                                  size_t count, BytesSink* sink,
                                  F&& append) const {
  const uint64_t at = sink->add_values(count);
  const auto ask = [&](uint32_t row) { prefetch(body, row); };
  const auto gather_block = [&](uint32_t b, size_t first, size_t n) -> Status {
    StringBlock block;
    NIMBLE_RETURN_IF_ERROR(read(body, b, &block));
    LengthCursor cursor(lengths_, block.packed);
    for (size_t i = first; i < first + n; ++i) {
      cursor.seek(rows[i] - block.first_row);
      NIMBLE_RETURN_IF_ERROR(append(block, cursor.begin(), cursor.length()));
      sink->set_end(at + i, sink->data.size());
    }
    return Status::ok();
  };
  return for_row_groups_ahead(body, rows, count, ask, gather_block, shift_);
}

template <class F>
Status StringBlocks::gather(const SegmentBody& body, const uint32_t* rows,
                            size_t count, BytesSink* sink, F&& append) const {
  size_t next = 0;
  return gather_codes(
      body, rows, count, sink,
      [&](const StringBlock& block, uint64_t begin, uint64_t length) -> Status {
        const uint32_t row = rows[next++];
        if (!in_bounds(begin, length, block.size)) {
          return Status::corrupt("string " + std::to_string(row) +
                                 " ends past its block");
        }
        return append(ByteSpan(block.bytes + begin, length), row);
      });
}

// Copies the bytes of rows [begin, end) to `out`, one string after the other.
using CopyRows =
    std::function<void(uint32_t begin, uint32_t end, uint8_t* out)>;

// Writes the head (from k on) and the body of strings with these lengths.
void write_string_blocks(std::span<const uint64_t> lengths,
                         const CopyRows& copy, SegmentBuilder* out);

// Appends the bytes of a block with rows [begin, end) to the body.
using AppendRows = std::function<Status(uint32_t begin, uint32_t end)>;

// Like write_string_blocks(), for blocks of 2^shift rows that do not hold the
// plain strings. `append` may fail.
Status write_packed_blocks(std::span<const uint64_t> lengths, uint32_t shift,
                           const AppendRows& append, SegmentBuilder* out);

// The largest shift, up to `most`, for which blocks of average strings are at
// most `target` bytes. There are `total` bytes in `rows` rows.
uint32_t choose_block_shift(uint64_t rows, uint64_t total, uint64_t target,
                            uint32_t most);

// Estimated size of the body that write_string_blocks() writes.
uint64_t string_blocks_size(uint64_t rows, uint64_t total, uint64_t max_length,
                            uint64_t min_length);

// Sets the ends of n values, from index `first` on, to base + ends[i].
void append_offsets(const uint64_t* ends, uint32_t n, uint64_t base,
                    uint64_t first, BytesSink* sink);

}  // namespace nimble
