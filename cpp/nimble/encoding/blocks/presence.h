// Presence: which rows of a segment have a value of their own in a child, and
// how many rows before each block do. Shared by `present` for strings and for
// fixed widths. Thread-safe.
//
// Head:  child: one boolean per row, true if the row has its own value
//        | number of rows with a value before blocks 1 .. B-1 (PackedOffsets)
//
// The child with the values follows it.
#pragma once

#include "nimble/encoding/blocks/packed_offsets.h"
#include "nimble/encoding/core/child.h"
#include "nimble/encoding/core/part.h"

namespace nimble {

// If fewer than one row in this many is null, nulls are stored like other
// values. A lookup then finds its row without counting bits.
inline constexpr uint64_t kRowsPerNull = 10;

class Presence {
 public:
  // Writes the head and the booleans. `has` is a bitmap of `rows` bits with
  // room for whole words. If `has_head` is not null, it receives the head of a
  // boolean stream with the same values in the same body.
  static Status write(const uint8_t* has, uint32_t rows,
                      const EncodeContext& context, SegmentBuilder* out,
                      ByteBuffer* has_head);
  // Reads a head of context.num_values rows, where `count` rows have their own
  // value. Verifies that before() is ascending and at most `count`.
  static Result<Presence> open(ByteReader* head, const DecodeContext& context,
                               uint64_t count);

  // Values [first, first + count) of the child. They belong to a range of rows.
  struct Own {
    uint32_t first = 0;
    uint32_t count = 0;
  };

  uint32_t count() const { return count_; }
  // Number of values before `block`, which may be the number of blocks.
  uint32_t before(uint32_t block) const {
    if (block == 0) return 0;
    if (block > counts_.count()) return count_;
    return static_cast<uint32_t>(counts_.get(block - 1));
  }
  // Appends the ranges of the booleans and of the child's values that rows
  // [begin, end) may need.
  void append_ranges(uint32_t begin, uint32_t end, const Child& values,
                     std::vector<ByteRange>* out) const;
  // Writes the booleans of rows [first row of begin's block, end) to `words`,
  // from bit 0 on. Returns the values of rows [begin, end).
  // REQUIRES: begin < end.
  Result<Own> read(const SegmentBody& body, uint32_t begin, uint32_t end,
                   uint64_t* words) const;
  // Sets bit i of `has` if rows[i] has a value, and writes the indexes of these
  // values in the child to `places`, ascending. Returns their number.
  // REQUIRES: `rows` are ascending; n <= kBlockValues; `has` is all zero.
  Result<uint32_t> find(const SegmentBody& body, const uint32_t* rows,
                        uint32_t n, uint64_t* has, uint32_t* places) const;
  void prefetch(const SegmentBody& body, uint32_t row,
                const Child& values) const;
  std::string describe() const {
    return "present n=" + std::to_string(count_) + " (" + where_.describe() +
           ") of ";
  }
  size_t memory_bytes() const {
    return where_.memory_bytes() + counts_.memory_bytes();
  }

 private:
  Presence(uint32_t rows, uint32_t count, Child where, PackedOffsets counts)
      : rows_(rows),
        count_(count),
        where_(std::move(where)),
        counts_(std::move(counts)) {}
  Status check(uint64_t first, uint64_t count, uint32_t last_block) const;

  uint32_t rows_;
  uint32_t count_;
  Child where_;
  PackedOffsets counts_;
};

}  // namespace nimble
