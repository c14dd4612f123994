// plain: fixed-width values one after the other, exactly as in memory, so that
// a mapped file needs no copy.
//
// Part:  num_values * width bytes of values
// Head:  part | unit varint | a checksum u64 for every `unit` values
//
// The checksums are in the head, because the values must be contiguous.
#pragma once

#include <vector>

#include "nimble/encoding/core/part.h"
#include "nimble/encoding/core/verified_blocks.h"

namespace nimble {

// REQUIRES: the type is kInt, kFloat or kFixed.
Status encode_plain(const Values& values, SegmentBuilder* out);

// Decodes plain values. view() needs no copy.
class PlainDecoder final : public Decoder {
 public:
  static Result<std::unique_ptr<PlainDecoder>> open(
      ByteReader* head, const DecodeContext& context);

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const override;
  Status decode(const SegmentBody& body, uint32_t begin, uint32_t end,
                const Output& out) const override;
  Status gather(const SegmentBody& body, const uint32_t* rows, size_t count,
                const Output& out) const override;
  Status value(const SegmentBody& body, uint32_t row,
               uint64_t* out) const override;
  Result<const uint8_t*> view(const SegmentBody& body, uint32_t begin,
                              uint32_t end) const override;
  void prefetch(const SegmentBody& body, uint32_t row) const override {
    __builtin_prefetch(body.data + place(row));
  }
  std::string describe() const override;
  size_t memory_bytes() const override {
    return sizeof *this + checksums_.capacity() * 8 + verified_.memory_bytes() +
           part_.memory_bytes();
  }

 private:
  PlainDecoder(const DecodeContext& context, Part part, uint32_t unit,
               std::vector<uint64_t> checksums)
      : Decoder(context.type, context.num_values),
        part_(std::move(part)),
        unit_(unit),
        checksums_(std::move(checksums)),
        verified_(checksums_.size()) {}

  uint64_t place(uint32_t row) const {
    return part_.place(uint64_t{row} * type().width);
  }
  // Offset of a unit's first row, relative to the part.
  uint64_t start_of(uint64_t unit) const {
    return std::min<uint64_t>(unit * unit_, size()) * type().width;
  }
  // Verifies the units that contain rows [begin, end).
  Status verify(const SegmentBody& body, uint32_t begin, uint32_t end) const;

  Part part_;
  uint32_t unit_;
  std::vector<uint64_t> checksums_;
  VerifiedBlocks verified_;
};

}  // namespace nimble
