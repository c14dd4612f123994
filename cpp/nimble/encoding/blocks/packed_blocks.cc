#include "nimble/encoding/blocks/packed_blocks.h"

namespace nimble {

Result<PackedBlocks> PackedBlocks::open(ByteReader* head,
                                        const DecodeContext& context,
                                        uint32_t fields, uint32_t max_width) {
  PackedBlocks blocks(context.num_values, fields);
  NIMBLE_ASSIGN_OR_RETURN(blocks.part_, Part::read(head, context));
  NIMBLE_RETURN_IF_ERROR(blocks.read_widths(head, max_width));
  if (blocks.num_blocks_ == 0) return blocks;
  const uint64_t needed = blocks.end_of(blocks.num_blocks_ - 1);
  if (needed > blocks.part_.size()) {
    return Status::corrupt("packed blocks need " + std::to_string(needed) +
                           " bytes, but their part has " +
                           std::to_string(blocks.part_.size()));
  }
  NIMBLE_RETURN_IF_ERROR(
      blocks.part_.check_blocks(blocks.num_blocks_, [&](uint64_t i) {
        return i < blocks.num_blocks_
                   ? blocks.start_of(static_cast<uint32_t>(i))
                   : needed;
      }));
  return blocks;
}

Status PackedBlocks::read_widths(ByteReader* head, uint32_t max_width) {
  width_ = head->get_u8();
  if (width_ == kWidthPerBlock) {
    const ByteSpan widths = head->get_bytes(num_blocks_);
    widths_.assign(widths.begin(), widths.end());
    width_ = 0;
    uint32_t start = 0;
    for (uint32_t b = 0; b < widths_.size(); ++b) {
      starts_.push_back(start);
      start += static_cast<uint32_t>(8 * (1 + fields_) +
                                     packed_bytes(rows(b), widths_[b]));
      width_ = std::max(width_, uint32_t{widths_[b]});
    }
  }
  NIMBLE_RETURN_IF_ERROR(head->status("widths of packed blocks"));
  if (width_ > max_width) {
    return Status::corrupt("packed width of " + std::to_string(width_) +
                           " bits, at most " + std::to_string(max_width) +
                           " fit the type");
  }
  return Status::ok();
}

std::string PackedBlocks::describe() const {
  if (widths_.empty()) return "w=" + std::to_string(width_);
  const auto [low, high] = std::minmax_element(widths_.begin(), widths_.end());
  return "w=" + std::to_string(*low) + ".." + std::to_string(*high);
}

BlockWidths BlockWidths::choose(std::vector<uint8_t> widths,
                                uint32_t num_values, uint32_t fields) {
  uint8_t max = 0;
  for (const uint8_t w : widths) max = std::max(max, w);
  BlockWidths one({}, max);
  BlockWidths each(std::move(widths), max);
  const uint64_t one_bytes = one.part_bytes(num_values, fields);
  const uint64_t each_bytes =
      each.part_bytes(num_values, fields) + each.widths_.size();
  return each_bytes < one_bytes - one_bytes / 20 ? each : one;
}

void BlockWidths::write(ByteBuffer* head) const {
  head->put_u8(widths_.empty() ? width_ : kWidthPerBlock);
  head->put_bytes(widths_);
}

uint64_t BlockWidths::part_bytes(uint32_t num_values, uint32_t fields) const {
  uint64_t total = 0;
  for (uint32_t b = 0; b < num_blocks_of(num_values); ++b) {
    total +=
        8 * (1 + fields) + packed_bytes(block_rows(b, num_values), width(b));
  }
  return total;
}

}  // namespace nimble
