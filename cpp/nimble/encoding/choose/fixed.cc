// Schemes for booleans, and for wide values that fit 8 bytes.
#include <algorithm>

#include "nimble/base/bitmap.h"
#include "nimble/encoding/bools/bool_bitmap.h"
#include "nimble/encoding/bools/sparse_bits.h"
#include "nimble/encoding/choose/checkpoint.h"
#include "nimble/encoding/choose/scheme.h"
#include "nimble/encoding/choose/stream_shared.h"
#include "nimble/encoding/core/part.h"
#include "nimble/encoding/ints/narrow.h"
#include "nimble/encoding/ints/run_length.h"

namespace nimble {
namespace {

// Encodes the values as integers, with all integer encodings, or as codes of
// the shared dictionary.
Result<bool> try_narrow(Analysis* a, SegmentBuilder* out) {
  const Values& values = a->values;
  const EncodeContext& context = a->context;
  const std::vector<uint64_t> low = narrowed(values);
  if (low.empty()) return false;
  Checkpoint checkpoint(*out);
  NIMBLE_RETURN_IF_ERROR(encode_narrow(values, low, context, out));
  if (dictionary_for(values, context) == nullptr ||
      values.size < kMinSelectionValues || context.effort == Effort::kFast) {
    return true;
  }
  const auto [least, most] = std::minmax_element(
      low.begin(), low.end(),
      [](uint64_t x, uint64_t y) { return int_less(true, x, y); });
  a->safe_bytes = checkpoint.cost(*out);
  a->value_bits = bit_width_of(*most - *least);
  a->large_shared_share = kRepetitionShare;
  a->sample = take_sample(values);
  const Scheme& dictionary = scheme::kDictionary;
  const double bytes = dictionary.estimate(a);
  if (!a->is_below(dictionary.share, bytes)) return true;
  checkpoint.save(*out);
  checkpoint.roll_back(out);
  NIMBLE_ASSIGN_OR_RETURN(const bool done,
                          encode_smallest({{bytes, &dictionary}}, a, out));
  if (!done) checkpoint.restore(out);
  return true;
}

}  // namespace

namespace scheme {

constinit const Scheme kBitmap = {
    .id = EncodingId::kBitmap,
    .stage = Stage::kSafe,
    .estimate =
        [](Analysis* a) {
          return a->values.size / 8.0 + 8.0 * num_blocks_of(a->values.size);
        },
    .encode = encode_by<encode_bitmap>};

constinit const Scheme kSparseBits = {
    .id = EncodingId::kSparseBits,
    .share = kRepetitionShare,
    .estimate =
        [](Analysis* a) {
          const uint32_t n = a->values.size;
          const uint64_t ones = count_bits(a->values.data, 0, n);
          const uint64_t rare = std::min(ones, n - ones);
          return static_cast<double>(sparse_bits_bytes(n, rare));
        },
    .encode = encode_by<encode_sparse_bits>};

// Run length stores at least as many runs as sparse bits stores positions, so
// it only pays if runs are long.
constinit const Scheme kRunsOfBools = {
    .id = EncodingId::kRunLength,
    .estimate = [](Analysis* a) { return a->safe_bytes / 2; },
    .encode = [](Analysis* a, SegmentBuilder* out) -> Result<bool> {
      const std::vector<uint32_t> ends =
          run_ends(a->values, a->values.size / kMinBoolRunRows);
      if (ends.empty()) return false;
      return written(encode_run_length(a->values, ends, a->context, out));
    }};

constinit const Scheme kNarrow = {.id = EncodingId::kNarrow,
                                  .stage = Stage::kAtOnce,
                                  .applies =
                                      [](const Analysis& a) {
                                        return can_be_narrow(a.values.type) &&
                                               a.values.size > 0;
                                      },
                                  .encode = try_narrow};

}  // namespace scheme
}  // namespace nimble
