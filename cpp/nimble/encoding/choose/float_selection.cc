// Chooses an encoding for floats.
#include "nimble/encoding/choose/selection.h"
#include "nimble/encoding/choose/value_sample.h"
#include "nimble/encoding/floats/alp.h"
#include "nimble/encoding/floats/float_bits.h"
#include "nimble/encoding/floats/split_float.h"
#include "nimble/encoding/ints/plain.h"

namespace nimble {
Status select_floats(const Values& values, const EncodeContext& context,
                     SegmentBuilder* out) {
  if (context.effort == Effort::kFast || context.random_access_only ||
      values.size < kMinSelectionValues ||
      context.depth >= kMaxSelectionDepth) {
    return encode_plain(values, out);
  }
  const double plain = fixed_bytes(values);
  Candidates candidates(plain, context);
  const AlpExponents exponents = choose_alp_exponents(values);
  const double alp_bits = exponents.bits_per_value;
  candidates.add(values.size * alp_bits / 8, kAlpShare,
                 [&](SegmentBuilder* to) {
                   return encode_alp(values, exponents, context, to);
                 });
  add_repetition(values, context, take_sample(values),
                 std::min(alp_bits, 8.0 * values.type.width), &candidates);
  const FloatBits bits = sample_float_bits(values);
  if (bits.zeros >= kMinZeroBits) {
    candidates.add(
        values.size * double{1} * bits.bits_per_value / 8, kSplitFloatShare,
        [&](SegmentBuilder* to) -> Result<bool> {
          NIMBLE_RETURN_IF_ERROR(encode_float_bits(values, context, to));
          return true;
        });
  }
  const FloatSplit split = choose_float_split(values);
  candidates.add(values.size * split.bits_per_value / 8, kSplitFloatShare,
                 [&](SegmentBuilder* to) -> Result<bool> {
                   NIMBLE_RETURN_IF_ERROR(
                       encode_split_float(values, split.low_bits, context, to));
                   return true;
                 });
  return encode_best(
      values, context, &candidates,
      [&](SegmentBuilder* to) { return encode_plain(values, to); }, out);
}

}  // namespace nimble
