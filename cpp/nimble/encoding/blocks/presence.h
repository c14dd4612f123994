// Presence: which rows of a segment have a value of their own among the values
// of a child, and how many rows before each block have one. What `present` of
// strings and of fixed widths have in common.
//
// Head:  child: booleans, one a row, true where it has a value of its own
//        | how many rows before blocks 1 .. B-1 have one (PackedOffsets)
//
// The child of the values themselves comes after it.
#pragma once

#include "nimble/encoding/blocks/packed_offsets.h"
#include "nimble/encoding/core/child.h"
#include "nimble/encoding/core/part.h"

namespace nimble {

// Fewer nulls than one in this many rows stay where they are: a row is then
// found without counting.
inline constexpr uint64_t kRowsPerNull = 10;

class Presence {
 public:
  // `has` is a bitmap of `rows` bits with room for whole words. The head of a
  // stream of exactly these booleans, of the same body, goes to `has_head` if
  // that is not null.
  static Status write(const uint8_t* has, uint32_t rows,
                      const EncodeContext& context, SegmentBuilder* out,
                      ByteBuffer* has_head);
  // Of context.num_values rows `count` have a value of their own: all that
  // before() gives ascends and is at most that.
  static Result<Presence> open(ByteReader* head, const DecodeContext& context,
                               uint64_t count);

  // The values that a run of rows has: [first, first + count) of the child's.
  struct Own {
    uint32_t first = 0;
    uint32_t count = 0;
  };

  uint32_t count() const { return count_; }
  // Values that the rows before this block have; blocks may end with it.
  uint32_t before(uint32_t block) const {
    if (block == 0) return 0;
    if (block > counts_.count()) return count_;
    return static_cast<uint32_t>(counts_.get(block - 1));
  }
  // What rows [begin, end) need of the booleans and of the child of values.
  void append_ranges(uint32_t begin, uint32_t end, const Child& values,
                     std::vector<ByteRange>* out) const;
  // The booleans of rows [first row of begin's block, end) to `words`, from bit
  // 0 on, and the values that rows [begin, end) have; begin < end.
  Result<Own> read(const SegmentBody& body, uint32_t begin, uint32_t end,
                   uint64_t* words) const;
  // Of n <= kBlockValues ascending rows: sets bit i of `has`, which is all
  // zero, where rows[i] has a value, and gives their places among the child's
  // values, ascending too. Returns how many these are.
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
