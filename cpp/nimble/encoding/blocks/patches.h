// Patches: the rows of a segment whose value is not what the base encoding
// gives, and those values. Grouped by block: a row's exceptions are found
// without touching those of other blocks.
//
// Head:
//   SIZE     MEANING
//   varint   number of exceptions in each block of 1024 rows, one a block
//   1        place of the positions: 0 in the body, 1 inline
//     0: part; for each block that has exceptions, in order:
//        8      checksum of the group's positions
//        2 * n  row inside the block, u16, ascending
//     1: varint size, then the same positions without checksums
//   child    the values, of the segment's type, one an exception (values only)
//
// SparseBits uses the positions alone: its exceptions are all the same value.
#pragma once

#include <span>

#include "nimble/encoding/core/child.h"
#include "nimble/encoding/core/part.h"
#include "nimble/encoding/core/verified_blocks.h"

namespace nimble {

class PatchPositions {
 public:
  // `rows` ascending, each < num_values.
  static void write(std::span<const uint32_t> rows, uint32_t num_values,
                    SegmentBuilder* out);
  static Result<PatchPositions> open(ByteReader* head,
                                     const DecodeContext& context);

  // Exceptions in all blocks before `block`, which may be num_blocks.
  uint32_t start(uint32_t block) const { return starts_[block]; }
  uint32_t count() const { return starts_.back(); }

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const;
  // The start(block + 1) - start(block) rows inside `block`, verified and
  // ascending. `rows` has room for kBlockValues.
  Status read(const SegmentBody& body, uint32_t block, uint16_t* rows) const;
  // Which of them ascending rows are, counted from the segment's or block's
  // first: places[i] is of rows[i], kNone where it is none of them. Looks at
  // the bytes where they lie.
  static constexpr uint32_t kNone = UINT32_MAX;
  Status find(const SegmentBody& body, uint32_t block, const uint32_t* rows,
              size_t n, uint32_t* places) const;
  // Asks for what find() of a row of the segment needs.
  void prefetch(const SegmentBody& body, uint32_t row) const;
  size_t memory_bytes() const {
    return (starts_.capacity() + groups_.capacity()) * 4 + inline_.capacity() +
           2 * verified_.memory_bytes() + part_.memory_bytes();
  }

 private:
  explicit PatchPositions(uint32_t num_values)
      : num_values_(num_values),
        verified_(num_blocks_of(num_values)),
        ascending_(std::make_unique<std::atomic<uint64_t>[]>(
            num_blocks_of(num_values) / 64 + 1)) {}
  Status read_counts(ByteReader* head);
  // The bytes of a block that has rows, which are checked: once where bytes
  // stay as they are.
  Status check(const SegmentBody& body, uint32_t block,
               const uint8_t** rows) const;
  uint32_t count_in(uint32_t block) const {
    return starts_[block + 1] - starts_[block];
  }
  const uint8_t* bytes_of(const SegmentBody& body, uint32_t block) const {
    return is_inline_ ? inline_.data() + 2 * starts_[block]
                      : body.data + part_.place(groups_[block]) + 8;
  }

  uint32_t num_values_;
  std::vector<uint32_t> starts_;  // exceptions before each block, and in all
  std::vector<uint32_t> groups_;  // where a block's group starts in the part
  bool is_inline_ = false;
  Part part_;
  std::vector<uint8_t> inline_;
  VerifiedBlocks verified_;
  // Blocks whose rows are known to be in order, a bit each.
  std::unique_ptr<std::atomic<uint64_t>[]> ascending_;
};

// Exceptions of fixed-width values, at most kMaxWidth bytes wide.
class Patches {
 public:
  static constexpr uint32_t kMaxWidth = 32;

  // `values` holds rows.size() values.
  static Status write(std::span<const uint32_t> rows, const Values& values,
                      uint32_t num_values, const EncodeContext& context,
                      SegmentBuilder* out);
  static Result<Patches> open(ByteReader* head, const DecodeContext& context);

  uint32_t count() const { return positions_.count(); }
  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const;
  // Overwrites the exceptions among rows [begin, end), `data` holding those
  // rows' values.
  Status apply(const SegmentBody& body, uint32_t begin, uint32_t end,
               uint8_t* data) const;
  // The same for gathered rows: value i of `data` is of rows[i].
  Status apply_gather(const SegmentBody& body, const uint32_t* rows,
                      size_t count, uint8_t* data) const;
  // The same for one row of values of up to 8 bytes, as Decoder::value() has
  // them.
  Status apply_one(const SegmentBody& body, uint32_t row,
                   uint64_t* value) const {
    const uint32_t block = row / kBlockValues;
    const uint32_t start = positions_.start(block);
    if (positions_.start(block + 1) == start) return Status::ok();
    uint32_t place = 0;
    NIMBLE_RETURN_IF_ERROR(positions_.find(body, block, &row, 1, &place));
    if (place == PatchPositions::kNone) return Status::ok();
    return values_.value(body, start + place, value);
  }
  // Where all other values are `common`, all being integers: what
  // SummedDecoder::sum_to() gives.
  Status sum_to(const SegmentBody& body, const ValueType& type, uint64_t common,
                const uint32_t* rows, size_t n, uint64_t* sums) const;
  // Asks for what says whether the row is an exception.
  void prefetch(const SegmentBody& body, uint32_t row) const {
    positions_.prefetch(body, row);
  }
  // For filters: asks `test` of the exceptions among the rows that `before`
  // selects, and sets or clears their bits in `selection` accordingly.
  Status apply_filter(const SegmentBody& body, const Predicate& test,
                      const uint64_t* before, uint64_t* selection) const;
  // Of the values.
  std::string describe() const { return values_.describe(); }
  size_t memory_bytes() const {
    return positions_.memory_bytes() + values_.memory_bytes();
  }

 private:
  Patches(PatchPositions positions, Child values, uint32_t width)
      : positions_(std::move(positions)),
        values_(std::move(values)),
        width_(width) {}

  PatchPositions positions_;
  Child values_;
  uint32_t width_;
};

}  // namespace nimble
