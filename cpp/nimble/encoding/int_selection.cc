// Which encoding integers get.
#include "nimble/encoding/bit_packed.h"
#include "nimble/encoding/delta.h"
#include "nimble/encoding/plain.h"
#include "nimble/encoding/selection.h"
#include "nimble/encoding/value_sample.h"

namespace nimble {
namespace {

// Plain can be handed on without a copy: packing must save more than this.
constexpr double kPlainShare = 0.97;
// A random row of delta costs a block: it must halve the size, unless the
// user asked for the smallest.
constexpr double kDeltaShare = 0.5;
constexpr double kCompactDeltaShare = 0.95;
// Patches cost a row a search among the block's exceptions.
constexpr double kPatchShare = 0.9;

double mean_delta_bits(const Values& values, const ValueSample& sample) {
  if (sample.run_values < 3) return 64;
  double bits = 0;
  for (const uint32_t start : sample.starts) {
    int64_t low = INT64_MAX;
    int64_t high = INT64_MIN;
    for (uint32_t i = 1; i < sample.run_values; ++i) {
      const auto difference =
          static_cast<int64_t>(load_int(values.type, values.data, start + i) -
                               load_int(values.type, values.data, start + i - 1));
      low = std::min(low, difference);
      high = std::max(high, difference);
    }
    bits += bit_width_of(static_cast<uint64_t>(high) -
                         static_cast<uint64_t>(low));
  }
  return bits / static_cast<double>(sample.starts.size());
}

void add_delta(const Values& values, const EncodeContext& context,
               const ValueSample& sample, Candidates* candidates) {
  const double share = context.effort == Effort::kCompact ? kCompactDeltaShare
                                                          : kDeltaShare;
  const double limit = candidates->limit() * share;
  const double bytes = values.size * mean_delta_bits(values, sample) / 8 +
                       values.size / 40.0;
  candidates->add(bytes, share, [=](SegmentBuilder* out) -> Result<bool> {
    if (static_cast<double>(delta_bytes(values)) >= limit) return false;
    NIMBLE_RETURN_IF_ERROR(encode_delta(values, out));
    return true;
  });
}

struct PatchedWidth {
  uint32_t width = 0;
  double bits_per_value = 64;
};

// The width that is cheapest when the `counts[w]` sampled offsets of w bits
// above it are exceptions.
PatchedWidth cheapest_width(const uint32_t (&counts)[65], uint32_t total,
                            uint32_t value_bits) {
  PatchedWidth best;
  uint32_t above = 0;
  for (uint32_t w = 64;; --w) {
    // Position, value, and what the exceptions' own encoding adds.
    const double exceptions = double(above) / total;
    const double bits = w + exceptions * (16 + value_bits + 4);
    if (exceptions < 0.1 && bits < best.bits_per_value) best = {w, bits};
    if (w == 0) return best;
    above += counts[w];
  }
}

void add_patched(const Values& values, const EncodeContext& context,
                 const ValueSample& sample, const std::vector<MinMax>& stats,
                 Candidates* candidates) {
  // Offsets from the block's minimum, and from its maximum: outliers may be on
  // either side.
  uint32_t up[65] = {};
  uint32_t down[65] = {};
  uint32_t widest = 0;
  for (const uint32_t start : sample.starts) {
    for (uint32_t i = start; i < start + sample.run_values; ++i) {
      const MinMax& block = stats[i / kBlockValues];
      const uint64_t v = load_int(values.type, values.data, i);
      ++up[bit_width_of(v - block.min)];
      ++down[bit_width_of(block.max - v)];
      widest = std::max(widest, block.width());
    }
  }
  const PatchedWidth a = cheapest_width(up, sample.size, widest);
  const PatchedWidth b = cheapest_width(down, sample.size, widest);
  const PatchedWidth best = a.bits_per_value <= b.bits_per_value ? a : b;
  candidates->add(values.size * best.bits_per_value / 8 + values.size / 60.0,
                  kPatchShare,
                  [&values, &stats, context, width = best.width](
                      SegmentBuilder* out) -> Result<bool> {
                    NIMBLE_RETURN_IF_ERROR(encode_bit_packed_patched(
                        values, stats, width, context, out));
                    return true;
                  });
}

}  // namespace

Status select_ints(const Values& values, const EncodeContext& context,
                   SegmentBuilder* out) {
  const std::vector<MinMax> stats = block_min_max(values);
  const double plain = fixed_bytes(values);
  const double packed =
      static_cast<double>(bit_packed_bytes(values.size, stats));
  const bool is_plain = packed >= plain * kPlainShare;
  const auto fallback = [&](SegmentBuilder* to) {
    return is_plain ? encode_plain(values, to)
                    : encode_bit_packed(values, stats, to);
  };
  if (context.random_access_only || context.effort == Effort::kFast ||
      values.size < kMinSelectionValues ||
      context.depth >= kMaxSelectionDepth) {
    return fallback(out);
  }
  const ValueSample sample = take_sample(values);
  const double value_bits = total_min_max(values.type, stats).width();
  Candidates candidates(is_plain ? plain : packed);
  add_repetition(values, context, sample, value_bits, &candidates);
  add_delta(values, context, sample, &candidates);
  add_patched(values, context, sample, stats, &candidates);
  return encode_best(values, context, &candidates, fallback, out);
}

}  // namespace nimble
