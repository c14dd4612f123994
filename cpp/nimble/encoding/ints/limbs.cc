#include "nimble/encoding/ints/limbs.h"

#include "nimble/encoding/core/joined_decoder.h"

namespace nimble {
namespace {

ValueType limb_type(const ValueType& type, uint32_t limb) {
  const bool is_top = limb == type.width / 8 - 1;
  return {ValueKind::kInt, 8, is_top && type.is_signed};
}

class LimbsDecoder final : public JoinedDecoder {
 public:
  using JoinedDecoder::JoinedDecoder;

  std::string describe() const override {
    std::string text = "limbs";
    for (const Child& limb : children()) text += " (" + limb.describe() + ")";
    return text;
  }

 private:
  Status join(const Rows& rows, uint8_t* out) const override {
    Scratch scratch;
    for (const Child& limb : children()) {
      NIMBLE_RETURN_IF_ERROR(rows.read(limb, scratch.output()));
      const uint64_t* words = scratch.as<uint64_t>();
      uint8_t* to = out;
      for (uint32_t i = 0; i < rows.count; ++i, to += type().width) {
        store(to, words[i]);
      }
      out += 8;
    }
    return Status::ok();
  }
};

}  // namespace

bool can_be_limbs(const ValueType& type) {
  return type.kind == ValueKind::kFixed &&
         (type.width == 16 || type.width == 32);
}

Status encode_limbs(const Values& values, const EncodeContext& context,
                    SegmentBuilder* out) {
  out->head.put_u8(static_cast<uint8_t>(EncodingId::kLimbs));
  std::vector<uint64_t> words(values.size);
  for (uint32_t limb = 0; limb < values.type.width / 8; ++limb) {
    for (uint32_t i = 0; i < values.size; ++i) {
      words[i] = load<uint64_t>(values.data + uint64_t{i} * values.type.width +
                                8 * limb);
    }
    Values child;
    child.type = limb_type(values.type, limb);
    child.size = values.size;
    child.data = reinterpret_cast<const uint8_t*>(words.data());
    NIMBLE_RETURN_IF_ERROR(encode_child(child, context, 0, out));
  }
  return Status::ok();
}

Result<std::unique_ptr<Decoder>> open_limbs(ByteReader* head,
                                            const DecodeContext& context) {
  if (!can_be_limbs(context.type)) {
    return Status::corrupt("only 16 and 32-byte values can be in limbs");
  }
  std::vector<Child> limbs;
  for (uint32_t i = 0; i < context.type.width / 8; ++i) {
    NIMBLE_ASSIGN_OR_RETURN(
        Child limb, Child::open(head, context, limb_type(context.type, i),
                                context.num_values));
    limbs.push_back(std::move(limb));
  }
  return std::unique_ptr<Decoder>(
      std::make_unique<LimbsDecoder>(context, std::move(limbs)));
}

}  // namespace nimble
