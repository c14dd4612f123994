#include "nimble/encoding/ints/split_int.h"

#include "nimble/base/bit_packing.h"
#include "nimble/base/compiler.h"
#include "nimble/encoding/core/joined_decoder.h"

namespace nimble {

// --------------------------------------------------------------------- encode

Status encode_split_int(const Values& values, uint32_t low_bits_count,
                        const EncodeContext& context, SegmentBuilder* out) {
  const uint32_t width = values.type.width;
  std::vector<uint8_t> high(uint64_t{values.size} * width);
  std::vector<uint8_t> low(high.size());
  for (uint32_t i = 0; i < values.size; ++i) {
    const uint64_t v = load_int(values.type, values.data, i);
    store_int(width, bits_above(values.type, v, low_bits_count),
              high.data() + uint64_t{i} * width);
    store_int(width, v & low_bits(low_bits_count),
              low.data() + uint64_t{i} * width);
  }
  put_encoding_id(EncodingId::kSplitInt, out);
  out->head.put_u8(static_cast<uint8_t>(low_bits_count));
  Values child = values;
  child.data = high.data();
  NIMBLE_RETURN_IF_ERROR(encode_child(child, context, 0, out));
  child.type = ValueType::unsigned_int(width);
  child.data = low.data();
  return encode_child(child, context, 0, out);
}

// --------------------------------------------------------------------- decode

namespace {

template <class Low, class High>
NIMBLE_ALWAYS_INLINE void join(const uint8_t* __restrict high, uint32_t n,
                               uint32_t shift, uint8_t* __restrict low) {
  for (uint32_t i = 0; i < n; ++i) {
    uint8_t* p = low + i * sizeof(Low);
    const Low above = load<High>(high + i * sizeof(High));
    store(p, static_cast<Low>(load<Low>(p) | above << shift));
  }
}

template <class Low>
NIMBLE_ALWAYS_INLINE void join(const uint8_t* __restrict high,
                               uint32_t high_width, uint32_t n, uint32_t shift,
                               uint8_t* __restrict low) {
  if (high_width == 2) return join<Low, uint16_t>(high, n, shift, low);
  join<Low, Low>(high, n, shift, low);
}

NIMBLE_CLONES void join_bits(const uint8_t* __restrict high,
                             uint32_t high_width, uint32_t n, uint32_t shift,
                             uint32_t width, uint8_t* __restrict low) {
  if (width == 8) return join<uint64_t>(high, high_width, n, shift, low);
  join<uint32_t>(high, high_width, n, shift, low);
}

class SplitDecoder final : public JoinedDecoder {
 public:
  SplitDecoder(const DecodeContext& context, std::string_view name,
               uint32_t low_bits_count, std::vector<Child> high_and_low)
      : JoinedDecoder(context, std::move(high_and_low)),
        name_(name),
        low_bits_(low_bits_count),
        high_width_(child(0).decoder().type().width) {}

  Status value(const SegmentBody& body, uint32_t row,
               uint64_t* out) const override {
    uint64_t high = 0;
    NIMBLE_RETURN_IF_ERROR(child(0).value(body, row, &high));
    NIMBLE_RETURN_IF_ERROR(child(1).value(body, row, out));
    *out |= (high & low_bits(high_width_ * 8)) << low_bits_;
    return Status::ok();
  }
  std::string describe() const override {
    return std::string(name_) + " low=" + std::to_string(low_bits_) + " (" +
           child(0).describe() + ") (" + child(1).describe() + ")";
  }

 private:
  Status join(const Rows& rows, uint8_t* out) const override {
    Scratch high;
    Output low;
    low.data = out;
    NIMBLE_RETURN_IF_ERROR(rows.read(child(1), low));
    NIMBLE_RETURN_IF_ERROR(rows.read(child(0), high.output()));
    join_bits(high.as<uint8_t>(), high_width_, rows.count, low_bits_,
              type().width, out);
    return Status::ok();
  }

  std::string_view name_;
  uint32_t low_bits_;
  uint32_t high_width_;
};

}  // namespace

// ----------------------------------------------------------------------- open

Result<std::unique_ptr<Decoder>> open_split(std::string_view name,
                                            const ValueType& high,
                                            uint32_t low_bits_count,
                                            ByteReader* head,
                                            const DecodeContext& context) {
  std::vector<Child> parts;
  for (const ValueType& type :
       {high, ValueType::unsigned_int(context.type.width)}) {
    NIMBLE_ASSIGN_OR_RETURN(
        Child part, Child::open(head, context, type, context.num_values));
    parts.push_back(std::move(part));
  }
  return std::unique_ptr<Decoder>(std::make_unique<SplitDecoder>(
      context, name, low_bits_count, std::move(parts)));
}

Result<std::unique_ptr<Decoder>> open_split_int(ByteReader* head,
                                                const DecodeContext& context) {
  const uint8_t low_bits_count = head->get_u8();
  NIMBLE_RETURN_IF_ERROR(head->status("split int head"));
  const uint32_t width = context.type.width;
  if (context.type.kind != ValueKind::kInt || (width != 4 && width != 8) ||
      low_bits_count == 0 || low_bits_count >= width * 8) {
    return Status::corrupt("integers of " + std::to_string(width) +
                           " bytes cannot be split at bit " +
                           std::to_string(low_bits_count));
  }
  return open_split("split int", context.type, low_bits_count, head, context);
}

}  // namespace nimble
