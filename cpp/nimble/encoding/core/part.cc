#include "nimble/encoding/core/part.h"

namespace nimble {

Result<Part> Part::read(ByteReader* head, const DecodeContext& context) {
  const size_t head_begin = head->position();
  Part part;
  part.begin_ = head->get_varint();
  if (part.begin_ == kInPieces) {
    NIMBLE_RETURN_IF_ERROR(part.read_pieces(head, context.body_size));
  } else {
    part.size_ = head->get_varint();
    NIMBLE_RETURN_IF_ERROR(head->status("place of an encoding's part"));
    if (part.begin_ % 8 != 0 ||
        !in_bounds(part.begin_, part.size_, context.body_size)) {
      return Status::corrupt("part of " + std::to_string(part.size_) +
                             " bytes at byte " + std::to_string(part.begin_) +
                             " does not fit a segment body of " +
                             std::to_string(context.body_size) + " bytes");
    }
  }
  if (context.parts != nullptr && !context.is_inline) {
    context.parts->push_back(
        {head_begin, head->position(), part.begin_, part.size_});
  }
  return part;
}

Status Part::read_pieces(ByteReader* head, uint64_t body_size) {
  const uint64_t count = head->get_varint();
  NIMBLE_RETURN_IF_ERROR(head->status("pieces of an encoding's part"));
  if (count < 2 || count > kMaxPieces) {
    return Status::corrupt("part of " + std::to_string(count) +
                           " pieces; 2 to " + std::to_string(kMaxPieces) +
                           " are possible");
  }
  auto pieces = std::make_unique<Pieces>();
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t gap = head->get_varint();
    const uint64_t size = head->get_varint();
    NIMBLE_RETURN_IF_ERROR(head->status("pieces of an encoding's part"));
    const uint64_t after = round_up(pieces->end, 8);
    if (after > body_size || gap > (body_size - after) / 8 || size == 0 ||
        size > body_size - after - gap * 8) {
      return Status::corrupt("piece " + std::to_string(i) + " of a part has " +
                             std::to_string(size) + " bytes and begins " +
                             std::to_string(gap) + " 8-byte words after byte " +
                             std::to_string(after) +
                             ", outside a segment body of " +
                             std::to_string(body_size) + " bytes");
    }
    const uint64_t begin = after + gap * 8;
    if (i == 0) begin_ = begin;
    pieces->all.push_back({size_, begin - size_});
    size_ += size;
    pieces->end = begin + size;
  }
  pieces->all.push_back({size_, 0});
  pieces->count = count;
  pieces->per_byte = (count << 32) / size_;
  pieces_ = std::move(pieces);
  return Status::ok();
}

void Part::append(uint64_t begin, uint64_t end,
                  std::vector<ByteRange>* out) const {
  while (begin < end) {
    const uint64_t n = std::min(end - begin, together(begin));
    out->push_back({place(begin), place(begin) + n});
    begin += n;
  }
}

Status Part::torn(uint64_t start) const {
  return Status::corrupt("block at byte " + std::to_string(start) +
                         " of a part of " + std::to_string(size_) +
                         " bytes is split between two pieces of the part");
}

}  // namespace nimble
