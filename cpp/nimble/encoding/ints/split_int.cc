#include "nimble/encoding/ints/split_int.h"

#include "nimble/base/bit_packing.h"
#include "nimble/base/compiler.h"
#include "nimble/encoding/core/joined_decoder.h"
#include "nimble/encoding/core/later_encodings.h"

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
  put_encoding_id(LaterEncodingId::kSplitInt, out);
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

template <class T>
NIMBLE_ALWAYS_INLINE void join(const T* __restrict high, uint32_t n,
                               uint32_t shift, uint8_t* __restrict low) {
  for (uint32_t i = 0; i < n; ++i) {
    uint8_t* p = low + i * sizeof(T);
    store(p, static_cast<T>(load<T>(p) | high[i] << shift));
  }
}

NIMBLE_CLONES void join_ints(const uint8_t* __restrict high, uint32_t n,
                             uint32_t shift, uint32_t width,
                             uint8_t* __restrict low) {
  if (width == 8) {
    return join(reinterpret_cast<const uint64_t*>(high), n, shift, low);
  }
  join(reinterpret_cast<const uint32_t*>(high), n, shift, low);
}

class SplitIntDecoder final : public JoinedDecoder {
 public:
  SplitIntDecoder(const DecodeContext& context, uint32_t low_bits_count,
                  std::vector<Child> high_and_low)
      : JoinedDecoder(context, std::move(high_and_low)),
        low_bits_(low_bits_count) {}

  Status value(const SegmentBody& body, uint32_t row,
               uint64_t* out) const override {
    uint64_t high = 0;
    NIMBLE_RETURN_IF_ERROR(child(0).value(body, row, &high));
    NIMBLE_RETURN_IF_ERROR(child(1).value(body, row, out));
    *out |= high << low_bits_;
    return Status::ok();
  }
  std::string describe() const override {
    return "split int low=" + std::to_string(low_bits_) + " (" +
           child(0).describe() + ") (" + child(1).describe() + ")";
  }

 private:
  Status join(const Rows& rows, uint8_t* out) const override {
    Scratch high;
    Output low;
    low.data = out;
    NIMBLE_RETURN_IF_ERROR(rows.read(child(1), low));
    NIMBLE_RETURN_IF_ERROR(rows.read(child(0), high.output()));
    join_ints(high.as<uint8_t>(), rows.count, low_bits_, type().width, out);
    return Status::ok();
  }

  uint32_t low_bits_;
};

}  // namespace

// ----------------------------------------------------------------------- open

Result<std::unique_ptr<Decoder>> open_split_int(ByteReader* head,
                                                const DecodeContext& context) {
  const uint8_t low_bits_count = head->get_u8();
  NIMBLE_RETURN_IF_ERROR(head->status("split int head"));
  const uint32_t width = context.type.width;
  if (context.type.kind != ValueKind::kInt || (width != 4 && width != 8) ||
      low_bits_count == 0 || low_bits_count >= width * 8) {
    return Status::corrupt("integers of " + std::to_string(width) +
                           " bytes split at bit " +
                           std::to_string(low_bits_count));
  }
  std::vector<Child> parts;
  for (const ValueType& type : {context.type, ValueType::unsigned_int(width)}) {
    NIMBLE_ASSIGN_OR_RETURN(
        Child part, Child::open(head, context, type, context.num_values));
    parts.push_back(std::move(part));
  }
  return std::unique_ptr<Decoder>(std::make_unique<SplitIntDecoder>(
      context, low_bits_count, std::move(parts)));
}

}  // namespace nimble
