#include "nimble/encoding/core/child.h"

namespace nimble {

namespace {

Status encode_nested(const Values& values, const EncodeContext& nested,
                     uint64_t inline_bytes, SegmentBuilder* out) {
  return encode_child_with(
      [&](SegmentBuilder* to) { return encode_values(values, nested, to); },
      inline_bytes, out);
}

}  // namespace

Status encode_child(const Values& values, const EncodeContext& context,
                    uint64_t inline_bytes, SegmentBuilder* out) {
  return encode_nested(values, context.of_others(), inline_bytes, out);
}

Status encode_own(const Values& values, const EncodeContext& context,
                  uint64_t inline_bytes, SegmentBuilder* out) {
  return encode_nested(values, context.of_own(), inline_bytes, out);
}

Result<Child> Child::open(ByteReader* head, const DecodeContext& parent,
                          const ValueType& type, uint32_t num_values) {
  DecodeContext context = parent;
  context.type = type;
  context.num_values = num_values;
  ++context.depth;
  Child child;
  const uint8_t place = head->get_u8();
  if (place == 1) {
    const ByteSpan bytes = head->get_sized();
    child.is_inline_ = true;
    child.inline_body_.append(bytes.data(), bytes.size());
    context.body_size = bytes.size();
    context.is_inline = true;
  }
  ByteReader ahead = *head;
  child.id_ = static_cast<EncodingId>(ahead.get_u8());
  NIMBLE_RETURN_IF_ERROR(ahead.status("nested encoding"));
  if (place > 1) {
    return Status::corrupt(
        "the place of a nested encoding must be 0 or 1, found " +
        std::to_string(place));
  }
  NIMBLE_ASSIGN_OR_RETURN(child.decoder_, open_decoder(head, context));
  return child;
}

}  // namespace nimble
