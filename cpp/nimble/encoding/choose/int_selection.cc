// Chooses an encoding for integers.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "nimble/encoding/choose/selection.h"
#include "nimble/encoding/choose/split_choice.h"
#include "nimble/encoding/choose/value_sample.h"
#include "nimble/encoding/ints/bit_packed.h"
#include "nimble/encoding/ints/delta.h"
#include "nimble/encoding/ints/differences.h"
#include "nimble/encoding/ints/plain.h"
#include "nimble/encoding/ints/scaled.h"
#include "nimble/encoding/ints/split_int.h"

namespace nimble {
namespace {

double mean_delta_bits(const Values& values, const ValueSample& sample) {
  if (sample.run_values < 3) return 64;
  double bits = 0;
  for (const uint32_t start : sample.starts) {
    int64_t low = INT64_MAX;
    int64_t high = INT64_MIN;
    for (uint32_t i = 1; i < sample.run_values; ++i) {
      const auto difference = static_cast<int64_t>(
          load_int(values.type, values.data, start + i) -
          load_int(values.type, values.data, start + i - 1));
      low = std::min(low, difference);
      high = std::max(high, difference);
    }
    bits +=
        bit_width_of(static_cast<uint64_t>(high) - static_cast<uint64_t>(low));
  }
  return bits / static_cast<double>(sample.starts.size());
}

struct PatchedWidth {
  uint32_t width = 0;
  double bits_per_value = 64;
};

// The cheapest width, if values that need more bits become exceptions.
// `counts[w]` is the number of sampled offsets that need w bits. The
// exceptions' values are encoded as integers again and may have exceptions
// themselves.
PatchedWidth cheapest_width(const uint32_t (&counts)[65], uint32_t value_bits,
                            bool is_nested = false) {
  constexpr double kMaxExceptions = 0.1;
  constexpr uint32_t kMinSampled = 32;  // enough to see their distribution
  uint32_t total = 0;
  for (const uint32_t count : counts) total += count;
  PatchedWidth best;
  uint32_t above = 0;
  uint32_t widest[65] = {};
  for (uint32_t w = 64;; --w) {
    const double exceptions = double(above) / std::max(total, 1u);
    if (exceptions < kMaxExceptions) {
      double each = value_bits;
      if (!is_nested && above >= kMinSampled) {
        each = std::min(
            each, cheapest_width(widest, value_bits, true).bits_per_value);
      }
      // Position, value, and what the exceptions' own encoding adds.
      const double bits = w + exceptions * (16 + each + 4);
      if (bits < best.bits_per_value) best = {w, bits};
    }
    if (w == 0) return best;
    above += counts[w];
    widest[w] = counts[w];
  }
}

// The sampled differences, run after run.
std::vector<int64_t> sampled_differences(const Values& values,
                                         const ValueSample& sample) {
  std::vector<int64_t> out;
  for (const uint32_t start : sample.starts) {
    for (uint32_t i = 1; i < sample.run_values; ++i) {
      out.push_back(static_cast<int64_t>(
          load_int(values.type, values.data, start + i) -
          load_int(values.type, values.data, start + i - 1)));
    }
  }
  return out;
}

// Estimated bits per difference stored as a child: as one common value and
// exceptions, as runs, or bit-packed with exceptions. Returns the smallest.
double difference_bits(std::vector<int64_t> differences) {
  const auto n = static_cast<uint32_t>(differences.size());
  if (n < kMinSelectionValues) return 64;
  Values values;
  values.type = ValueType::signed_int(8);
  values.size = n;
  values.data = reinterpret_cast<const uint8_t*>(differences.data());
  const ValueSample sample = take_sample(values);
  const auto [low, high] =
      std::minmax_element(differences.begin(), differences.end());
  const uint32_t width =
      bit_width_of(static_cast<uint64_t>(*high) - static_cast<uint64_t>(*low));
  uint32_t counts[65] = {};
  for (const int64_t d : differences) {
    ++counts[bit_width_of(static_cast<uint64_t>(d) -
                          static_cast<uint64_t>(*low))];
  }
  const double others = sample.exceptions(n) / n;
  // Either the exceptions' positions, or one bit per row.
  const double repeated =
      std::min(others * (16 + width), 1 + others * width) + 0.1;
  const double runs = sample.runs(n) / n * (17 + width);
  const double packed = cheapest_width(counts, width).bits_per_value;
  return std::min({repeated, runs, packed});
}

void add_delta(const Values& values, const EncodeContext& context,
               const ValueSample& sample, Candidates* candidates) {
  const double share =
      context.effort == Effort::kCompact ? kCompactDeltaShare : kDeltaShare;
  const double limit = candidates->limit() * share;
  double bytes =
      values.size * mean_delta_bits(values, sample) / 8 + values.size / 40.0;
  // Sampled runs are shorter than blocks and may miss outliers, so a promising
  // estimate is replaced by the exact size.
  if (bytes < limit) bytes = static_cast<double>(delta_bytes(values));
  candidates->add(bytes, share, [=](SegmentBuilder* out) -> Result<bool> {
    NIMBLE_RETURN_IF_ERROR(encode_delta(values, out));
    return true;
  });
  const double nested =
      values.size * difference_bits(sampled_differences(values, sample)) / 8 +
      values.size / 100.0;
  const double nested_share = context.effort == Effort::kCompact
                                  ? kCompactDifferencesShare
                                  : kDifferencesShare;
  if (bytes < limit && nested >= bytes * nested_share) return;
  candidates->add(nested, share, [=](SegmentBuilder* out) -> Result<bool> {
    NIMBLE_RETURN_IF_ERROR(encode_differences(values, context, out));
    return true;
  });
}

// Widths of the offsets of 64 values per sampled block, relative to three
// possible bases. The values are equally spaced in the block that holds the
// sample run.
struct OffsetWidths {
  uint32_t above_min[65] = {};  // outliers on top
  uint32_t below_max[65] = {};  // outliers at the bottom
  uint32_t median[65] = {};     // either side; one bit too many
  uint32_t widest = 0;

  void add_block(const ValueType& type, const uint8_t* data, uint32_t n,
                 const MinMax& block) {
    uint64_t values[kSampleRunValues];
    const uint32_t count = std::min(n, kSampleRunValues);
    for (uint32_t i = 0; i < count; ++i) {
      values[i] = load_int(type, data, uint64_t{i} * n / count);
      ++above_min[bit_width_of(values[i] - block.min)];
      ++below_max[bit_width_of(block.max - values[i])];
    }
    std::nth_element(
        values, values + count / 2, values + count,
        [&](uint64_t a, uint64_t b) { return int_less(type.is_signed, a, b); });
    const uint64_t middle = values[count / 2];
    for (uint32_t i = 0; i < count; ++i) {
      const uint64_t up = values[i] - middle;
      const uint32_t bits = bit_width_of(std::min(up, 0 - up));
      ++median[std::min(bits + 1, 64u)];
    }
    widest = std::max(widest, block.width());
  }
};

void add_patched(const Values& values, const EncodeContext& context,
                 const ValueSample& sample, const std::vector<MinMax>& stats,
                 Candidates* candidates) {
  OffsetWidths offsets;
  for (const uint32_t start : sample.starts) {
    const uint32_t b = start / kBlockValues;
    offsets.add_block(
        values.type,
        values.data + uint64_t{b} * kBlockValues * values.type.width,
        block_rows(b, values.size), stats[b]);
  }
  PatchedWidth best;
  for (const auto* counts :
       {&offsets.above_min, &offsets.below_max, &offsets.median}) {
    const PatchedWidth width = cheapest_width(*counts, offsets.widest);
    if (width.bits_per_value < best.bits_per_value) best = width;
  }
  candidates->add(values.size * best.bits_per_value / 8 + values.size / 60.0,
                  kPatchShare,
                  [&values, &stats, context,
                   width = best.width](SegmentBuilder* out) -> Result<bool> {
                    NIMBLE_RETURN_IF_ERROR(encode_bit_packed_patched(
                        values, stats, width, context, out));
                    return true;
                  });
}

void add_split(const Values& values, const EncodeContext& context,
               const ValueSample& sample, const std::vector<MinMax>& stats,
               Candidates* candidates) {
  if (values.type.width < 4 ||
      candidates->limit() * 8 < double{kMinSplitBits} * values.size) {
    return;
  }
  const IntSplit split = choose_int_split(values, sample, stats);
  const double bytes = values.size * split.bits_per_value / 8;
  if (bytes >= candidates->limit() * kSplitIntShare) return;
  candidates->add(bytes, kSplitIntShare,
                  [=](SegmentBuilder* out) -> Result<bool> {
                    NIMBLE_RETURN_IF_ERROR(
                        encode_split_int(values, split.low_bits, context, out));
                    return true;
                  });
}

// The greatest common divisor of the sampled values' distances from `base`.
uint64_t sampled_divisor(const Values& values, const ValueSample& sample,
                         uint64_t base) {
  uint64_t divisor = 0;
  for (const uint32_t start : sample.starts) {
    for (uint32_t i = 0; i < sample.run_values && divisor != 1; ++i) {
      divisor = std::gcd(divisor,
                         load_int(values.type, values.data, start + i) - base);
    }
  }
  return divisor;
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
  if (values.size >= kMinSelectionValues && context.random_access_only &&
      is_even(values)) {
    return encode_delta(values, out);
  }
  if (context.random_access_only || context.effort == Effort::kFast ||
      values.size < kMinSelectionValues ||
      context.depth >= kMaxSelectionDepth) {
    return fallback(out);
  }
  if (is_even(values)) return encode_even(values, context, out);
  const ValueSample sample = take_sample(values);
  const MinMax all = total_min_max(values.type, stats);
  const double value_bits = all.width();
  Candidates candidates(is_plain ? plain : packed, context);
  add_repetition(values, context, sample, value_bits, &candidates);
  // A common divisor is removed first. The quotients then choose an encoding of
  // their own.
  const uint64_t divisor = sampled_divisor(values, sample, all.min);
  const double saved =
      values.size * std::log2(static_cast<double>(divisor | !divisor)) / 8;
  if (divisor > 1 && std::min(values.size * value_bits / 8, packed) - saved <
                         candidates.least()) {
    if (const auto scale = find_scale(values, all.min, divisor)) {
      return encode_scaled(values, *scale, context, out);
    }
  }
  add_delta(values, context, sample, &candidates);
  add_patched(values, context, sample, stats, &candidates);
  add_split(values, context, sample, stats, &candidates);
  return encode_best(values, context, &candidates, fallback, out);
}

}  // namespace nimble
