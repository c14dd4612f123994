#include "nimble/encoding/strings/plain_bytes.h"

#include <algorithm>

#include "nimble/encoding/core/string_blocks.h"

namespace nimble {
namespace {

class PlainBytesDecoder final : public Decoder {
 public:
  PlainBytesDecoder(const DecodeContext& context, StringBlocks blocks)
      : Decoder(context.type, context.num_values), blocks_(std::move(blocks)) {}

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const override {
    blocks_.append_ranges(begin, end, out);
  }
  Status decode(const SegmentBody& body, uint32_t begin, uint32_t end,
                const Output& out) const override;
  Status gather(const SegmentBody& body, const uint32_t* rows, size_t count,
                const Output& out) const override;
  void prefetch(const SegmentBody& body, uint32_t row) const override {
    blocks_.prefetch(body, row);
  }
  std::string describe() const override {
    return "plain bytes " + blocks_.describe();
  }
  size_t memory_bytes() const override {
    return sizeof *this + blocks_.memory_bytes();
  }

 private:
  Status gather_block(const StringBlock& block, const uint32_t* rows,
                      size_t count, uint64_t first, BytesSink* sink) const;

  StringBlocks blocks_;
};

Status PlainBytesDecoder::decode(const SegmentBody& body, uint32_t begin,
                                 uint32_t end, const Output& out) const {
  if (begin >= end) return Status::ok();
  BytesSink* sink = out.bytes;
  uint64_t at = sink->add_values(end - begin);
  if (begin == 0 && end == size()) {
    sink->data.reserve(sink->data.size() + blocks_.part_size());
  }
  uint64_t ends[kBlockValues];
  for (uint32_t b = blocks_.block_of(begin); b <= blocks_.block_of(end - 1);
       ++b) {
    StringBlock block;
    NIMBLE_RETURN_IF_ERROR(blocks_.read(body, b, &block));
    NIMBLE_RETURN_IF_ERROR(blocks_.read_ends(block, ends));
    const uint32_t from = std::max(begin, block.first_row) - block.first_row;
    const uint32_t to = std::min(end - block.first_row, block.rows);
    const uint64_t skip = from > 0 ? ends[from - 1] : 0;
    // Unsigned on purpose: skip may exceed what the sink holds so far.
    put_ends(ends + from, to - from, sink->data.size() - skip, at, sink);
    sink->data.append(block.bytes + skip, ends[to - 1] - skip);
    at += to - from;
  }
  return Status::ok();
}

Status PlainBytesDecoder::gather(const SegmentBody& body, const uint32_t* rows,
                                 size_t count, const Output& out) const {
  BytesSink* sink = out.bytes;
  const uint64_t at = sink->add_values(count);
  const auto ask = [&](uint32_t row) { blocks_.prefetch(body, row); };
  const auto gather_rows = [&](uint32_t b, size_t i, size_t n) -> Status {
    StringBlock block;
    NIMBLE_RETURN_IF_ERROR(blocks_.read(body, b, &block));
    return gather_block(block, rows + i, n, at + i, sink);
  };
  return for_row_groups_ahead(body, rows, count, ask, gather_rows,
                              blocks_.shift());
}

Status PlainBytesDecoder::gather_block(const StringBlock& block,
                                       const uint32_t* rows, size_t count,
                                       uint64_t first, BytesSink* sink) const {
  LengthCursor cursor(blocks_.lengths(), block.packed);
  for (size_t i = 0; i < count; ++i) {
    cursor.seek(rows[i] - block.first_row);
    if (!in_bounds(cursor.begin(), cursor.length(), block.size)) {
      return Status::corrupt("string " + std::to_string(rows[i]) +
                             " ends past its block");
    }
    sink->data.append(block.bytes + cursor.begin(), cursor.length());
    sink->set_end(first + i, sink->data.size());
  }
  return Status::ok();
}

}  // namespace

Status encode_plain_bytes(const Values& values, SegmentBuilder* out) {
  std::vector<uint64_t> lengths(values.size);
  for (uint32_t i = 0; i < values.size; ++i) lengths[i] = values.slices[i].size;
  const auto copy = [&](uint32_t begin, uint32_t end, uint8_t* to) {
    for (uint32_t i = begin; i < end; ++i) {
      const ByteSlice& s = values.slices[i];
      if (s.size > 0) std::memcpy(to, s.data, s.size);
      to += s.size;
    }
  };
  out->head.put_u8(static_cast<uint8_t>(EncodingId::kPlainBytes));
  write_string_blocks(lengths, copy, out);
  return Status::ok();
}

Result<std::unique_ptr<Decoder>> open_plain_bytes(
    ByteReader* head, const DecodeContext& context) {
  if (context.type.kind != ValueKind::kBytes) {
    return Status::corrupt("plain bytes hold strings only");
  }
  NIMBLE_ASSIGN_OR_RETURN(StringBlocks blocks,
                          StringBlocks::open(head, context));
  return std::unique_ptr<Decoder>(
      std::make_unique<PlainBytesDecoder>(context, std::move(blocks)));
}

}  // namespace nimble
