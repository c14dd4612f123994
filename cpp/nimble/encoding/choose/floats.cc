// Schemes for floats.
#include <algorithm>

#include "nimble/encoding/choose/scheme.h"
#include "nimble/encoding/floats/float_bits.h"
#include "nimble/encoding/floats/split_float.h"

namespace nimble::scheme {

constinit const Scheme kAlp = {
    .id = EncodingId::kAlp,
    .share = kAlpShare,
    .estimate =
        [](Analysis* a) {
          a->alp = choose_alp_exponents(a->values);
          const double bits = a->alp.bits_per_value;
          a->value_bits = std::min(bits, a->value_bits);
          return a->values.size * bits / 8;
        },
    .encode =
        [](Analysis* a, SegmentBuilder* out) {
          return encode_alp(a->values, a->alp, a->context, out);
        }};

constinit const Scheme kFloatBits = {
    .id = EncodingId::kFloatBits,
    .share = kSplitFloatShare,
    .estimate =
        [](Analysis* a) {
          const FloatBits bits = sample_float_bits(a->values);
          if (bits.zeros < kMinZeroBits) return kNever;
          return double{1} * a->values.size * bits.bits_per_value / 8;
        },
    .encode = encode_by<encode_float_bits>};

constinit const Scheme kSplitFloat = {
    .id = EncodingId::kSplitFloat,
    .share = kSplitFloatShare,
    .estimate =
        [](Analysis* a) {
          const FloatSplit split = choose_float_split(a->values);
          a->split_low_bits = split.low_bits;
          return a->values.size * split.bits_per_value / 8;
        },
    .encode =
        [](Analysis* a, SegmentBuilder* out) {
          return written(encode_split_float(a->values, a->split_low_bits,
                                            a->context, out));
        }};

}  // namespace nimble::scheme
