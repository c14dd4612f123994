#include "nimble/encoding/bools/bool_bitmap.h"

#include "nimble/base/bitmap.h"
#include "nimble/encoding/core/part.h"
#include "nimble/encoding/core/verified_blocks.h"

namespace nimble {
namespace {

constexpr uint64_t kStride = 8 + kBlockValues / 8;

uint64_t bits_bytes(uint32_t block, uint32_t num_values) {
  return div_ceil(block_rows(block, num_values), 8);
}

// Copies bits rows[i] of a block to bits `at` + i of `out`, byte by byte.
void gather_bits(const uint8_t* bits, const uint32_t* rows, size_t n,
                 uint8_t* out, uint64_t at) {
  uint8_t* to = out + at / 8;
  uint32_t filled = static_cast<uint32_t>(at % 8);
  uint32_t byte = *to & ((1u << filled) - 1);
  for (size_t i = 0; i < n; ++i) {
    const uint32_t bit = get_bit(bits, rows[i] % kBlockValues) ? 1 : 0;
    byte |= bit << filled;
    if (++filled < 8) continue;
    *to++ = static_cast<uint8_t>(byte);
    byte = filled = 0;
  }
  if (filled == 0) return;
  *to = static_cast<uint8_t>(byte | (*to & ~0u << filled));
}

class BitmapDecoder final : public Decoder {
 public:
  BitmapDecoder(const DecodeContext& context, Part part)
      : Decoder(context.type, context.num_values),
        part_(std::move(part)),
        verified_(num_blocks_of(context.num_values)) {}

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const override {
    if (begin >= end) return;
    const uint32_t last = (end - 1) / kBlockValues;
    part_.append(begin / kBlockValues * kStride,
                 last * kStride + 8 + bits_bytes(last, size()), out);
  }
  Status decode(const SegmentBody& body, uint32_t begin, uint32_t end,
                const Output& out) const override {
    uint64_t to = out.bit_offset;
    return for_blocks(
        begin, end,
        [&](uint32_t block, uint32_t from, uint32_t until) -> Status {
          const uint8_t* bits = nullptr;
          NIMBLE_RETURN_IF_ERROR(read(body, block, &bits));
          copy_bits(bits, from, until - from, out.data, to);
          to += until - from;
          return Status::ok();
        });
  }
  Status gather(const SegmentBody& body, const uint32_t* rows, size_t count,
                const Output& out) const override {
    return for_row_groups(
        rows, count, [&](uint32_t block, size_t first, size_t n) -> Status {
          const uint8_t* bits = nullptr;
          NIMBLE_RETURN_IF_ERROR(read(body, block, &bits));
          gather_bits(bits, rows + first, n, out.data, out.bit_offset + first);
          return Status::ok();
        });
  }
  Status value(const SegmentBody& body, uint32_t row,
               uint64_t* out) const override {
    const uint8_t* bits = nullptr;
    NIMBLE_RETURN_IF_ERROR(read(body, row / kBlockValues, &bits));
    *out = get_bit(bits, row % kBlockValues) ? 1 : 0;
    return Status::ok();
  }
  void prefetch(const SegmentBody& body, uint32_t row) const override {
    const uint8_t* const p =
        body.data + part_.place(row / kBlockValues * kStride);
    __builtin_prefetch(p);
    __builtin_prefetch(p + 8 + row % kBlockValues / 8);
  }
  std::string describe() const override { return "bitmap"; }
  size_t memory_bytes() const override {
    return sizeof *this + verified_.memory_bytes() + part_.memory_bytes();
  }

 private:
  Status read(const SegmentBody& body, uint32_t block,
              const uint8_t** bits) const {
    const uint8_t* p = body.data + part_.place(block * kStride);
    *bits = p + 8;
    return verified_.check(
        body, block, {p + 8, static_cast<size_t>(bits_bytes(block, size()))},
        load<uint64_t>(p));
  }

  Part part_;
  VerifiedBlocks verified_;
};

}  // namespace

Status encode_bitmap(const Values& values, SegmentBuilder* out) {
  const uint64_t begin = out->begin_part();
  for (uint32_t b = 0; b < num_blocks_of(values.size); ++b) {
    const uint32_t n = block_rows(b, values.size);
    const size_t bytes = static_cast<size_t>(bits_bytes(b, values.size));
    uint8_t* p = out->body.extend(8 + bytes);
    // If the block ends inside a byte, the bits after it must remain zero.
    copy_bits(values.data, uint64_t{b} * kBlockValues, n, p + 8, 0);
    store(p, checksum64({p + 8, bytes}));
  }
  put_encoding_id(EncodingId::kBitmap, out);
  out->put_part(begin);
  return Status::ok();
}

Result<std::unique_ptr<Decoder>> open_bitmap(ByteReader* head,
                                             const DecodeContext& context) {
  if (context.type.kind != ValueKind::kBool) {
    return Status::corrupt("bitmaps hold booleans only");
  }
  NIMBLE_ASSIGN_OR_RETURN(Part part, Part::read(head, context));
  const uint32_t blocks = num_blocks_of(context.num_values);
  const uint64_t needed = blocks * 8 + div_ceil(context.num_values, 8);
  if (part.size() < needed) {
    return Status::corrupt("bitmap of " + std::to_string(context.num_values) +
                           " values does not fit " +
                           std::to_string(part.size()) + " bytes");
  }
  NIMBLE_RETURN_IF_ERROR(part.check_blocks(
      blocks, [&](uint64_t i) { return i < blocks ? i * kStride : needed; }));
  return std::unique_ptr<Decoder>(
      std::make_unique<BitmapDecoder>(context, std::move(part)));
}

}  // namespace nimble
