#include "nimble/encoding/bools/sparse_bits.h"

#include "nimble/base/bitmap.h"
#include "nimble/encoding/blocks/patches.h"

namespace nimble {

// --------------------------------------------------------------------- encode

Status encode_sparse_bits(const Values& values, SegmentBuilder* out) {
  const uint64_t ones = count_bits(values.data, 0, values.size);
  const bool common = ones * 2 > values.size;
  std::vector<uint32_t> rows;
  for (uint32_t i = 0; i < values.size; ++i) {
    if (get_bit(values.data, i) != common) rows.push_back(i);
  }
  put_encoding_id(EncodingId::kSparseBits, out);
  out->head.put_u8(common ? 1 : 0);
  PatchPositions::write(rows, values.size, out);
  return Status::ok();
}

uint64_t sparse_bits_bytes(uint32_t num_values, uint64_t rare) {
  return 2 * rare + 9 * uint64_t{num_blocks_of(num_values)};
}

namespace {

// --------------------------------------------------------------------- decode

class SparseBitsDecoder final : public Decoder {
 public:
  SparseBitsDecoder(const DecodeContext& context, bool common,
                    PatchPositions rare)
      : Decoder(context.type, context.num_values),
        common_(common),
        rare_(std::move(rare)) {}

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const override {
    rare_.append_ranges(begin, end, out);
  }
  Status decode(const SegmentBody& body, uint32_t begin, uint32_t end,
                const Output& out) const override {
    fill_bits(out.data, out.bit_offset, end - begin, common_);
    return for_blocks(
        begin, end,
        [&](uint32_t block, uint32_t from, uint32_t until) -> Status {
          uint16_t rows[kBlockValues];
          NIMBLE_RETURN_IF_ERROR(rare_.read(body, block, rows));
          for (uint32_t i = 0; i < count_in(block); ++i) {
            if (rows[i] < from || rows[i] >= until) continue;
            const uint32_t row = block * kBlockValues + rows[i] - begin;
            put_bit(out.data, out.bit_offset + row, !common_);
          }
          return Status::ok();
        });
  }
  Status gather(const SegmentBody& body, const uint32_t* rows, size_t count,
                const Output& out) const override {
    fill_bits(out.data, out.bit_offset, count, common_);
    return for_row_groups(
        rows, count, [&](uint32_t block, size_t first, size_t n) -> Status {
          constexpr size_t kTogether = 256;
          for (const size_t end = first + n; first < end; first += kTogether) {
            const size_t some = std::min(end - first, kTogether);
            uint32_t places[kTogether];
            NIMBLE_RETURN_IF_ERROR(
                rare_.find(body, block, rows + first, some, places));
            for (size_t i = 0; i < some; ++i) {
              if (places[i] == PatchPositions::kNone) continue;
              put_bit(out.data, out.bit_offset + first + i, !common_);
            }
          }
          return Status::ok();
        });
  }
  Status value(const SegmentBody& body, uint32_t row,
               uint64_t* out) const override {
    uint32_t place = 0;
    NIMBLE_RETURN_IF_ERROR(
        rare_.find(body, row / kBlockValues, &row, 1, &place));
    *out = common_ == (place == PatchPositions::kNone) ? 1 : 0;
    return Status::ok();
  }
  void prefetch(const SegmentBody& body, uint32_t row) const override {
    rare_.prefetch(body, row);
  }
  std::string describe() const override {
    return "sparse bits n=" + std::to_string(rare_.count()) + " of " +
           (common_ ? "0" : "1");
  }
  size_t memory_bytes() const override {
    return sizeof *this + rare_.memory_bytes();
  }

 private:
  uint32_t count_in(uint32_t block) const {
    return rare_.start(block + 1) - rare_.start(block);
  }

  bool common_;
  PatchPositions rare_;
};

}  // namespace

// ----------------------------------------------------------------------- open

Result<std::unique_ptr<Decoder>> open_sparse_bits(
    ByteReader* head, const DecodeContext& context) {
  if (context.type.kind != ValueKind::kBool) {
    return Status::corrupt("sparse bits hold booleans only");
  }
  const uint8_t common = head->get_u8();
  NIMBLE_RETURN_IF_ERROR(head->status("sparse bits head"));
  if (common > 1) return Status::corrupt("the head of sparse bits is damaged");
  NIMBLE_ASSIGN_OR_RETURN(PatchPositions rare,
                          PatchPositions::open(head, context));
  return std::unique_ptr<Decoder>(std::make_unique<SparseBitsDecoder>(
      context, common == 1, std::move(rare)));
}

}  // namespace nimble
