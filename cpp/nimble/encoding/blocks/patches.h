// Patches: the exceptions of a segment. These are rows whose value differs from
// the base encoding's, with their values. They are grouped by block, so that a
// lookup reads the exceptions of one block only.
//
// Head:
//   SIZE     MEANING
//   varint   number of exceptions in each block of 1024 rows, one per block
//   1        location of the positions: 0 in the body, 1 inline
//     0: part; for each block that has exceptions, in order:
//        8      checksum of the group's positions
//        2 * n  row inside the block, u16, ascending
//     1: varint size, then the same positions without checksums
//   child    the values, of the segment's type, one per exception (not in
//   sparse_bits)
//
// SparseBits uses only the positions, because all its exceptions have the same
// value.
#pragma once

#include <span>

#include "nimble/encoding/core/child.h"
#include "nimble/encoding/core/part.h"
#include "nimble/encoding/core/verified_blocks.h"

namespace nimble {

// The rows of the exceptions, grouped by block. Thread-safe.
class PatchPositions {
 public:
  // REQUIRES: `rows` are ascending, each < num_values.
  static void write(std::span<const uint32_t> rows, uint32_t num_values,
                    SegmentBuilder* out);
  static Result<PatchPositions> open(ByteReader* head,
                                     const DecodeContext& context);

  // Number of exceptions in the blocks before `block`, which may be num_blocks.
  uint32_t start(uint32_t block) const { return starts_[block]; }
  uint32_t count() const { return starts_.back(); }

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const;
  // Reads the start(block + 1) - start(block) exceptions of `block` as rows
  // relative to the block, verified and ascending.
  // REQUIRES: `rows` has room for kBlockValues.
  Status read(const SegmentBody& body, uint32_t block, uint16_t* rows) const;
  // Sets places[i] to the index of rows[i] among the block's exceptions, or to
  // kNone if rows[i] is not an exception. Searches the encoded bytes in place.
  // REQUIRES: `rows` are ascending. They may be relative to the segment or to
  // the block.
  static constexpr uint32_t kNone = UINT32_MAX;
  Status find(const SegmentBody& body, uint32_t block, const uint32_t* rows,
              size_t n, uint32_t* places) const;
  // Prefetches the bytes that find() needs for a row of the segment.
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
  // The verified bytes of a block that has exceptions. Stable bodies are
  // verified once.
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
  std::vector<uint32_t> starts_;  // exceptions before each block, and the total
  std::vector<uint32_t> groups_;  // offset of each block's group in the part
  bool is_inline_ = false;
  Part part_;
  std::vector<uint8_t> inline_;
  VerifiedBlocks verified_;
  // Blocks whose rows are known to be ascending, one bit each.
  std::unique_ptr<std::atomic<uint64_t>[]> ascending_;
};

// Exceptions with fixed-width values of at most kMaxWidth bytes.
class Patches {
 public:
  static constexpr uint32_t kMaxWidth = 32;

  // REQUIRES: `values` holds rows.size() values.
  static Status write(std::span<const uint32_t> rows, const Values& values,
                      uint32_t num_values, const EncodeContext& context,
                      SegmentBuilder* out);
  static Result<Patches> open(ByteReader* head, const DecodeContext& context);

  uint32_t count() const { return positions_.count(); }
  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const;
  // Overwrites the exceptions among rows [begin, end) in `data`, which holds
  // those rows' values.
  Status apply(const SegmentBody& body, uint32_t begin, uint32_t end,
               uint8_t* data) const;
  // Like apply(), for gathered rows: value i of `data` is the value of rows[i].
  Status apply_gather(const SegmentBody& body, const uint32_t* rows,
                      size_t count, uint8_t* data) const;
  // Like apply(), for one row whose value has at most 8 bytes. `value` has the
  // format of Decoder::value().
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
  // Implements SummedDecoder::sum_to() for integers whose other values all
  // equal `common`.
  Status sum_to(const SegmentBody& body, const ValueType& type, uint64_t common,
                const uint32_t* rows, size_t n, uint64_t* sums) const;
  // Prefetches the bytes that tell whether the row is an exception.
  void prefetch(const SegmentBody& body, uint32_t row) const {
    positions_.prefetch(body, row);
  }
  // For filters: tests the exceptions among the rows that `before` selects, and
  // sets or clears their bits in `selection`.
  Status apply_filter(const SegmentBody& body, const Predicate& test,
                      const uint64_t* before, uint64_t* selection) const;
  // Describes the encoding of the values.
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
