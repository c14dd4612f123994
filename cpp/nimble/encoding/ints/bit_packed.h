// bit_packed: integers as offsets from the smallest value of their block. All
// offsets of a segment, or of a block, have the same number of bits, so the
// position of a value is computed. Outliers may be stored as patches.
//
// Block:  8 checksum | 8 base (64-bit pattern) | packed offsets
// Head:   PackedBlocks | has_patches u8 | Patches, if has_patches is 1
#pragma once

#include <optional>
#include <span>

#include "nimble/encoding/blocks/packed_blocks.h"
#include "nimble/encoding/blocks/patches.h"
#include "nimble/encoding/core/int_values.h"

namespace nimble {

// REQUIRES: `stats` is block_min_max(values).
Status encode_bit_packed(const Values& values, std::span<const MinMax> stats,
                         SegmentBuilder* out);
Status encode_bit_packed(const Values& values, SegmentBuilder* out);
// Packs offsets in `width` bits. Larger offsets become patches.
Status encode_bit_packed_patched(const Values& values,
                                 std::span<const MinMax> stats, uint32_t width,
                                 const EncodeContext& context,
                                 SegmentBuilder* out);
// Size of the body that encode_bit_packed() writes.
uint64_t bit_packed_bytes(uint32_t num_values, std::span<const MinMax> stats);

class BitPackedDecoder final : public Decoder {
 public:
  // REQUIRES: `head` is after the EncodingId byte.
  static Result<std::unique_ptr<BitPackedDecoder>> open(
      ByteReader* head, const DecodeContext& context);

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const override;
  Status decode(const SegmentBody& body, uint32_t begin, uint32_t end,
                const Output& out) const override;
  Status decode_ranges(const SegmentBody& body,
                       std::span<const RowRange> ranges,
                       const Output& out) const override;
  Status gather(const SegmentBody& body, const uint32_t* rows, size_t count,
                const Output& out) const override;
  Status value(const SegmentBody& body, uint32_t row,
               uint64_t* out) const override {
    return get(body, row, out);
  }
  void prefetch(const SegmentBody& body, uint32_t row) const override {
    if (patches_) patches_->prefetch(body, row);
    if (type().width == 8) return blocks_.prefetch<uint64_t>(body, row);
    blocks_.prefetch<uint32_t>(body, row);
  }
  Status filter(const SegmentBody& body, const Predicate& test,
                uint64_t* selection) const override;
  std::string describe() const override;
  size_t memory_bytes() const override;

  // Reads one value as a 64-bit pattern, sign-extended if the type is signed.
  Status get(const SegmentBody& body, uint32_t row, uint64_t* value) const {
    const uint8_t* fields = nullptr;
    NIMBLE_RETURN_IF_ERROR(blocks_.read(body, row / kBlockValues, &fields));
    *value = extract(fields, row / kBlockValues, row % kBlockValues);
    if (!patches_) return Status::ok();
    return patch_one(body, row, value);
  }
  // Finds the first row of [begin, end) with a value >= target, or `end`. If
  // the values are not ascending, the result is an arbitrary row in [begin,
  // end].
  Status search(const SegmentBody& body, uint32_t begin, uint32_t end,
                uint64_t target, uint32_t* row) const;

 private:
  BitPackedDecoder(const DecodeContext& context, PackedBlocks blocks)
      : Decoder(context.type, context.num_values), blocks_(std::move(blocks)) {}

  // Returns a value of a verified block, without patches.
  uint64_t extract(const uint8_t* fields, uint32_t block, uint32_t row) const {
    const uint32_t width = blocks_.width(block);
    const uint32_t n = blocks_.rows(block);
    const uint64_t base = load<uint64_t>(fields);
    uint64_t offset = 0;
    if (n < kBlockValues) {
      offset = extract_tail(width, fields + 8, n, row);
    } else if (type().width == 8) {
      offset = extract_packed<uint64_t>(width, fields + 8, row);
    } else {
      offset = extract_packed<uint32_t>(width, fields + 8, row);
    }
    return fit(base + offset);
  }
  // Truncates to the type's width and extends again, because in damaged files
  // the sum of base and offset may exceed the width.
  uint64_t fit(uint64_t v) const {
    const uint32_t cut = 64 - 8 * type().width;
    return type().is_signed
               ? static_cast<uint64_t>(static_cast<int64_t>(v << cut) >> cut)
               : v << cut >> cut;
  }
  // Unpacks all rows of a verified block.
  // REQUIRES: `out` has room for kBlockValues values.
  void unpack(const uint8_t* fields, uint32_t block, uint8_t* out) const;
  // Extracts n rows of a verified block, without patches.
  void extract_few(const uint8_t* fields, uint32_t block, const uint32_t* rows,
                   size_t n, uint8_t* out) const;
  Status patch_one(const SegmentBody& body, uint32_t row,
                   uint64_t* value) const;

  // Tests rows of a verified block without patches (bit_packed_filter.cc).
  void filter_extracted(const uint8_t* fields, uint32_t block,
                        const Predicate& test, uint64_t* selection) const;
  void filter_block(const uint8_t* fields, uint32_t block,
                    const Predicate& test, uint64_t* selection) const;
  // Unpacks all offsets of a block to words, without adding the base.
  void unpack_offsets64(const uint8_t* packed, uint32_t block,
                        uint8_t* out) const;
  void unpack_offsets32(const uint8_t* packed, uint32_t block,
                        uint8_t* out) const;

  PackedBlocks blocks_;
  std::optional<Patches> patches_;
};

}  // namespace nimble
