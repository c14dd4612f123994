#include "nimble/encoding/floats/float_bits.h"

#include <algorithm>
#include <bit>

#include "nimble/base/bytes.h"
#include "nimble/encoding/core/joined_decoder.h"

namespace nimble {
namespace {

class FloatBitsDecoder final : public JoinedDecoder {
 public:
  using JoinedDecoder::JoinedDecoder;

  Status value(const SegmentBody& body, uint32_t row,
               uint64_t* out) const override {
    return child(0).value(body, row, out);
  }
  std::string describe() const override {
    return "float bits " + child(0).describe();
  }

 private:
  Status join(const Rows& rows, uint8_t* out) const override {
    Output to;
    to.data = out;
    return rows.read(child(0), to);
  }
};

}  // namespace

FloatBits sample_float_bits(const Values& values) {
  constexpr uint32_t kSamples = 512;
  const uint32_t width = values.type.width;
  const uint32_t n = std::min(values.size, kSamples);
  uint64_t all = 0, least = UINT64_MAX, most = 0;
  for (uint32_t i = 0; i < n; ++i) {
    uint64_t bits = 0;
    const uint64_t row = uint64_t{i} * values.size / n;
    std::memcpy(&bits, values.data + row * width, width);
    all |= bits;
    least = std::min(least, bits);
    most = std::max(most, bits);
  }
  FloatBits out;
  out.zeros = std::min(static_cast<uint32_t>(std::countr_zero(all)), width * 8);
  if (out.zeros < 64 && n > 0) {
    out.bits_per_value = bit_width_of((most - least) >> out.zeros);
  }
  return out;
}

Status encode_float_bits(const Values& values, const EncodeContext& context,
                         SegmentBuilder* out) {
  put_encoding_id(EncodingId::kFloatBits, out);
  Values bits = values;
  bits.type = ValueType::unsigned_int(values.type.width);
  return encode_child(bits, context, 0, out);
}

Result<std::unique_ptr<Decoder>> open_float_bits(ByteReader* head,
                                                 const DecodeContext& context) {
  const uint32_t width = context.type.width;
  if (context.type.kind != ValueKind::kFloat || (width != 4 && width != 8)) {
    return Status::corrupt(
        "only floats of 4 or 8 bytes can be stored as bits, not values of " +
        std::to_string(width) + " bytes");
  }
  NIMBLE_ASSIGN_OR_RETURN(
      Child bits, Child::open(head, context, ValueType::unsigned_int(width),
                              context.num_values));
  std::vector<Child> children;
  children.push_back(std::move(bits));
  return std::unique_ptr<Decoder>(
      std::make_unique<FloatBitsDecoder>(context, std::move(children)));
}

}  // namespace nimble
