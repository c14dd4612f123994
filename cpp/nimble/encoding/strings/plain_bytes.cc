#include "nimble/encoding/strings/plain_bytes.h"

#include "nimble/encoding/blocks/block_strings.h"

namespace nimble {
namespace {

class PlainBytesDecoder final : public BlockStrings {
 public:
  PlainBytesDecoder(const DecodeContext& context, const Room& room,
                    StringBlocks blocks)
      : BlockStrings(context, std::move(blocks), room) {}

  Status gather(const SegmentBody& body, const uint32_t* rows, size_t count,
                const Output& out) const override;
  std::string describe() const override {
    return "plain bytes " + blocks_.describe();
  }
  size_t memory_bytes() const override {
    return sizeof *this + blocks_.memory_bytes();
  }

 protected:
  Status decode_block(const SegmentBody& body, const StringBlock& block,
                      uint32_t from, uint32_t to, uint64_t at,
                      BytesSink* sink) const override;
};

Status PlainBytesDecoder::decode_block(const SegmentBody& /*body*/,
                                       const StringBlock& block, uint32_t from,
                                       uint32_t to, uint64_t at,
                                       BytesSink* sink) const {
  uint64_t ends[kBlockValues];
  NIMBLE_RETURN_IF_ERROR(blocks_.read_ends(block, ends));
  const uint64_t skip = from > 0 ? ends[from - 1] : 0;
  // Unsigned arithmetic wraps on purpose: skip may exceed the sink's size.
  append_offsets(ends + from, to - from, sink->data.size() - skip, at, sink);
  sink->data.append(block.bytes + skip, ends[to - 1] - skip);
  return Status::ok();
}

Status PlainBytesDecoder::gather(const SegmentBody& body, const uint32_t* rows,
                                 size_t count, const Output& out) const {
  return blocks_.gather(body, rows, count, out.bytes,
                        [&](ByteSpan bytes, uint32_t /*row*/) {
                          out.bytes->data.append(bytes.data(), bytes.size());
                          return Status::ok();
                        });
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
  put_encoding_id(EncodingId::kPlainBytes, out);
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
  const BlockStrings::Room room{blocks.part_size(), blocks.part_size(), 0};
  return std::unique_ptr<Decoder>(
      std::make_unique<PlainBytesDecoder>(context, room, std::move(blocks)));
}

}  // namespace nimble
