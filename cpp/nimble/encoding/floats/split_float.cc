#include "nimble/encoding/floats/split_float.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "nimble/base/bit_packing.h"
#include "nimble/encoding/core/child.h"
#include "nimble/encoding/dictionaries/dictionary.h"
#include "nimble/encoding/ints/bit_packed.h"
#include "nimble/encoding/ints/split_int.h"

namespace nimble {
namespace {

constexpr uint32_t kSamples = 512;
constexpr uint32_t kHighBits = 16;  // maximum

uint64_t float_bits(const Values& values, uint64_t i) {
  return values.type.width == 8 ? load<uint64_t>(values.data + i * 8)
                                : load<uint32_t>(values.data + i * 4);
}

}  // namespace

// --------------------------------------------------------------------- encode

namespace {

// Bits per value of codes for values with these frequencies, the most frequent
// first. Codes that do not fit the width are exceptions. An exception takes a
// position, a code and the overhead of its encoding.
double code_bits(const std::vector<uint32_t>& counts, uint32_t total) {
  constexpr double kExceptionBits = 28;
  const uint32_t most = bit_width_of(counts.size() - 1);
  double best = most;
  uint64_t held = 0;
  size_t next = 0;
  for (uint32_t width = 0; width < most; ++width) {
    for (; next < counts.size() && next < size_t{1} << width; ++next) {
      held += counts[next];
    }
    const double exceptions = 1 - static_cast<double>(held) / total;
    if (exceptions > 0.1) continue;
    best = std::min(best, width + exceptions * kExceptionBits);
  }
  return best;
}

}  // namespace

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
    std::vector<uint32_t> counts{1};
    for (uint32_t i = 1; i < n; ++i) {
      if (sorted[i] >> low != sorted[i - 1] >> low) counts.push_back(0);
      ++counts.back();
    }
    std::sort(counts.begin(), counts.end(), std::greater<>());
    const uint64_t range = (sorted[n - 1] >> low) - (sorted[0] >> low);
    // The high bits are stored as integers in a range or as codes. The sample
    // predicts codes only if most of its values occur many times.
    double high = bit_width_of(range);
    if (counts.size() <= n / 8) high = std::min(high, code_bits(counts, n));
    const double total = low + high;
    if (total < best.bits_per_value) best = {low, total};
  }
  return best;
}

namespace {

// Encodes the high bits with a dictionary ordered by frequency. If a few
// exponents dominate, the others become exceptions.
Status encode_high_codes(const Values& high, const EncodeContext& context,
                         SegmentBuilder* out) {
  DistinctValues distinct;
  if (!distinct.build(high, {})) {
    return Status::invalid_argument("high bits have too many values");
  }
  distinct.order_by_frequency();
  return encode_dictionary(distinct, context, out);
}

// Chooses the smaller of encode_high_codes() and the best integer encoding.
Status encode_high(const Values& high, const EncodeContext& parent,
                   SegmentBuilder* out) {
  const EncodeContext context = parent.of_others();
  SegmentBuilder coded;
  NIMBLE_RETURN_IF_ERROR(encode_high_codes(high, context, &coded));
  SegmentBuilder other;
  NIMBLE_RETURN_IF_ERROR(encode_values(high, context, &other));
  const bool takes_codes = coded.head.size() + coded.body.size() <
                           other.head.size() + other.body.size();
  return encode_child_with(
      [&](SegmentBuilder* to) {
        return takes_codes ? encode_high_codes(high, context, to)
                           : encode_values(high, context, to);
      },
      0, out);
}

}  // namespace

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
  put_encoding_id(EncodingId::kSplitFloat, out);
  out->head.put_u8(static_cast<uint8_t>(low_bits_count));
  Values child;
  child.type = ValueType::unsigned_int(2);
  child.size = values.size;
  child.data = reinterpret_cast<const uint8_t*>(high.data());
  NIMBLE_RETURN_IF_ERROR(encode_high(child, context, out));
  child.type = ValueType::unsigned_int(width);
  child.data = low.data();
  return encode_child_with(
      [&](SegmentBuilder* to) { return encode_bit_packed(child, to); }, 0, out);
}

// ----------------------------------------------------------------------- open

Result<std::unique_ptr<Decoder>> open_split_float(
    ByteReader* head, const DecodeContext& context) {
  const uint8_t low_bits_count = head->get_u8();
  NIMBLE_RETURN_IF_ERROR(head->status("split float head"));
  const uint32_t width = context.type.width;
  if (context.type.kind != ValueKind::kFloat || (width != 4 && width != 8) ||
      low_bits_count >= width * 8 || low_bits_count < width * 8 - kHighBits) {
    return Status::corrupt("floats of " + std::to_string(width) +
                           " bytes cannot be split at bit " +
                           std::to_string(low_bits_count));
  }
  return open_split("split float", ValueType::unsigned_int(2), low_bits_count,
                    head, context);
}

}  // namespace nimble
