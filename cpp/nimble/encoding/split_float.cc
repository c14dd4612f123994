#include "nimble/encoding/split_float.h"

#include <algorithm>

#include "nimble/base/bit_packing.h"
#include "nimble/encoding/bit_packed.h"
#include "nimble/encoding/child.h"
#include "nimble/encoding/part.h"

namespace nimble {
namespace {

constexpr uint32_t kSamples = 256;
constexpr uint32_t kHighBits = 16;  // at most

uint64_t float_bits(const Values& values, uint64_t i) {
  return values.type.width == 8 ? load<uint64_t>(values.data + i * 8)
                                : load<uint32_t>(values.data + i * 4);
}

}  // namespace

// --------------------------------------------------------------------- encode

FloatSplit choose_float_split(const Values& values) {
  const uint32_t bits = values.type.width * 8;
  const uint32_t n = std::min(values.size, kSamples);
  FloatSplit best{bits - kHighBits, static_cast<double>(bits)};
  if (n == 0) return best;
  uint64_t sorted[kSamples];
  for (uint32_t i = 0; i < n; ++i) {
    sorted[i] = float_bits(values, uint64_t{i} * values.size / n);
  }
  std::sort(sorted, sorted + n);
  for (uint32_t low = bits - kHighBits; low < bits; ++low) {
    uint64_t distinct = 1;
    for (uint32_t i = 1; i < n; ++i) {
      distinct += sorted[i] >> low != sorted[i - 1] >> low;
    }
    const uint64_t range = (sorted[n - 1] >> low) - (sorted[0] >> low);
    // As dictionary codes or as a range of integers.
    const uint32_t code_bits =
        std::min(bit_width_of(distinct - 1), bit_width_of(range));
    const double total = low + code_bits;
    if (total < best.bits_per_value) best = {low, total};
  }
  return best;
}

Status encode_split_float(const Values& values, uint32_t low_bits_count,
                          const EncodeContext& context, SegmentBuilder* out) {
  const uint32_t width = values.type.width;
  std::vector<uint16_t> high(values.size);
  std::vector<uint8_t> low(values.size * width);
  for (uint32_t i = 0; i < values.size; ++i) {
    const uint64_t v = float_bits(values, i);
    high[i] = static_cast<uint16_t>(v >> low_bits_count);
    store_int(width, v & low_bits(low_bits_count),
              low.data() + uint64_t{i} * width);
  }
  out->head.put_u8(static_cast<uint8_t>(EncodingId::kSplitFloat));
  out->head.put_u8(static_cast<uint8_t>(low_bits_count));
  Values child;
  child.type = ValueType::unsigned_int(2);
  child.size = values.size;
  child.data = reinterpret_cast<const uint8_t*>(high.data());
  NIMBLE_RETURN_IF_ERROR(encode_child(child, context, 0, out));
  child.type = ValueType::unsigned_int(width);
  child.data = low.data();
  return encode_child_with(
      [&](SegmentBuilder* to) { return encode_bit_packed(child, to); }, 0, out);
}

namespace {

// --------------------------------------------------------------------- decode

template <class Bits>
NIMBLE_ALWAYS_INLINE void join(const uint16_t* __restrict high, uint32_t n,
                               uint32_t shift, uint8_t* __restrict low) {
  for (uint32_t i = 0; i < n; ++i) {
    uint8_t* p = low + i * sizeof(Bits);
    store(p, static_cast<Bits>(load<Bits>(p) | Bits{high[i]} << shift));
  }
}

NIMBLE_CLONES void join_bits(const uint16_t* __restrict high, uint32_t n,
                             uint32_t shift, uint32_t width,
                             uint8_t* __restrict low) {
  if (width == 8) return join<uint64_t>(high, n, shift, low);
  join<uint32_t>(high, n, shift, low);
}

class SplitFloatDecoder final : public Decoder {
 public:
  SplitFloatDecoder(const DecodeContext& context, uint32_t low_bits_count,
                    Child high, Child low)
      : Decoder(context.type, context.num_values),
        low_bits_(low_bits_count),
        high_(std::move(high)),
        low_(std::move(low)) {}

  void append_ranges(uint32_t begin, uint32_t end,
                     std::vector<ByteRange>* out) const override {
    high_.append_ranges(begin, end, out);
    low_.append_ranges(begin, end, out);
  }
  Status decode(const SegmentBody& body, uint32_t begin, uint32_t end,
                const Output& out) const override {
    Scratch scratch;
    return for_blocks(
        begin, end,
        [&](uint32_t block, uint32_t from, uint32_t until) -> Status {
          const uint32_t first = block * kBlockValues + from;
          const uint32_t last = block * kBlockValues + until;
          Output low = out;
          low.data += uint64_t{first - begin} * type().width;
          NIMBLE_RETURN_IF_ERROR(low_.decode(body, first, last, low));
          NIMBLE_RETURN_IF_ERROR(
              high_.decode(body, first, last, scratch.output()));
          join_bits(scratch.as<uint16_t>(), until - from, low_bits_,
                    type().width, low.data);
          return Status::ok();
        });
  }

  // ---------------------------------------------------------------- gather

  Status gather(const SegmentBody& body, const uint32_t* rows, size_t count,
                const Output& out) const override {
    Scratch scratch;
    return for_chunks(count, [&](size_t first, uint32_t n) -> Status {
      Output low = out;
      low.data += first * type().width;
      NIMBLE_RETURN_IF_ERROR(low_.gather(body, rows + first, n, low));
      NIMBLE_RETURN_IF_ERROR(
          high_.gather(body, rows + first, n, scratch.output()));
      join_bits(scratch.as<uint16_t>(), n, low_bits_, type().width, low.data);
      return Status::ok();
    });
  }
  void prefetch(const SegmentBody& body, uint32_t row) const override {
    high_.prefetch(body, row);
    low_.prefetch(body, row);
  }
  std::string describe() const override {
    return "split float low=" + std::to_string(low_bits_) + " (" +
           high_.describe() + ") (" + low_.describe() + ")";
  }
  size_t memory_bytes() const override {
    return sizeof *this + high_.memory_bytes() + low_.memory_bytes();
  }

 private:
  uint32_t low_bits_;
  Child high_;
  Child low_;
};

}  // namespace

// ----------------------------------------------------------------------- open

Result<std::unique_ptr<Decoder>> open_split_float(
    ByteReader* head, const DecodeContext& context) {
  const uint8_t low_bits_count = head->get_u8();
  NIMBLE_RETURN_IF_ERROR(head->status("split float head"));
  const uint32_t width = context.type.width;
  if (context.type.kind != ValueKind::kFloat || (width != 4 && width != 8) ||
      low_bits_count >= width * 8 || low_bits_count < width * 8 - kHighBits) {
    return Status::corrupt("floats of " + std::to_string(width) +
                           " bytes split at bit " +
                           std::to_string(low_bits_count));
  }
  NIMBLE_ASSIGN_OR_RETURN(Child high,
                          Child::open(head, context, ValueType::unsigned_int(2),
                                      context.num_values));
  NIMBLE_ASSIGN_OR_RETURN(
      Child low, Child::open(head, context, ValueType::unsigned_int(width),
                             context.num_values));
  return std::unique_ptr<Decoder>(std::make_unique<SplitFloatDecoder>(
      context, low_bits_count, std::move(high), std::move(low)));
}

}  // namespace nimble
