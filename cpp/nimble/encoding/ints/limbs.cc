#include "nimble/encoding/ints/limbs.h"

#include "nimble/encoding/core/child.h"
#include "nimble/encoding/core/part.h"

namespace nimble {
namespace {

ValueType limb_type(const ValueType& type, uint32_t limb) {
  const bool is_top = limb == type.width / 8 - 1;
  return {ValueKind::kInt, 8, is_top && type.is_signed};
}

class LimbsDecoder final : public Decoder {
 public:
  LimbsDecoder(const DecodeContext& context, std::vector<Child> limbs)
      : Decoder(context.type, context.num_values), limbs_(std::move(limbs)) {}

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const override {
    for (const Child& limb : limbs_) limb.append_ranges(begin, end, out);
  }
  Status decode(const SegmentBody& body, uint32_t begin, uint32_t end,
                const Output& out) const override {
    Scratch scratch;
    return for_blocks(
        begin, end,
        [&](uint32_t block, uint32_t from, uint32_t until) -> Status {
          const uint32_t first = block * kBlockValues;
          uint8_t* to =
              out.data + uint64_t{first + from - begin} * type().width;
          for (const Child& limb : limbs_) {
            NIMBLE_RETURN_IF_ERROR(limb.decode(
                body, first + from, first + until, scratch.output()));
            spread(scratch, until - from, to);
            to += 8;
          }
          return Status::ok();
        });
  }
  Status gather(const SegmentBody& body, const uint32_t* rows, size_t count,
                const Output& out) const override {
    Scratch scratch;
    return for_chunks(count, [&](size_t first, uint32_t n) -> Status {
      uint8_t* to = out.data + first * type().width;
      for (const Child& limb : limbs_) {
        NIMBLE_RETURN_IF_ERROR(
            limb.gather(body, rows + first, n, scratch.output()));
        spread(scratch, n, to);
        to += 8;
      }
      return Status::ok();
    });
  }
  void prefetch(const SegmentBody& body, uint32_t row) const override {
    for (const Child& limb : limbs_) limb.prefetch(body, row);
  }
  std::string describe() const override {
    std::string text = "limbs";
    for (const Child& limb : limbs_) text += " (" + limb.describe() + ")";
    return text;
  }
  size_t memory_bytes() const override {
    size_t total = sizeof *this;
    for (const Child& limb : limbs_) total += limb.memory_bytes();
    return total;
  }

 private:
  void spread(const Scratch& scratch, uint32_t n, uint8_t* to) const {
    const uint64_t* words = scratch.as<uint64_t>();
    for (uint32_t i = 0; i < n; ++i, to += type().width) store(to, words[i]);
  }

  std::vector<Child> limbs_;
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
