// Schemes for integers, and plain values of any fixed width.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "nimble/encoding/choose/scheme.h"
#include "nimble/encoding/ints/bit_packed.h"
#include "nimble/encoding/ints/delta.h"
#include "nimble/encoding/ints/differences.h"
#include "nimble/encoding/ints/plain.h"
#include "nimble/encoding/ints/scaled.h"
#include "nimble/encoding/ints/split_int.h"

namespace nimble {
namespace {

// The sampled differences of all runs, one run after the other.
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

// The mean number of bits of a difference that is packed as an offset from the
// smallest difference of its run.
double mean_delta_bits(const Analysis& a) {
  if (a.sample.run_values < 3) return 64;
  const uint32_t each = a.sample.run_values - 1;
  double bits = 0;
  for (auto run = a.differences.begin(); run != a.differences.end();
       run += each) {
    const auto [low, high] = std::minmax_element(run, run + each);
    bits += bit_width_of(static_cast<uint64_t>(*high) -
                         static_cast<uint64_t>(*low));
  }
  return bits / static_cast<double>(a.sample.starts.size());
}

struct PatchedWidth {
  uint32_t width = 0;
  double bits_per_value = 64;
};

// Returns the cheapest width. Values that need more bits become exceptions.
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
      // The exception's position, its value, and the overhead of its encoding.
      const double bits = w + exceptions * (16 + each + 4);
      if (bits < best.bits_per_value) best = {w, bits};
    }
    if (w == 0) return best;
    above += counts[w];
    widest[w] = counts[w];
  }
}

// Estimates the bits per difference if differences are encoded as a child. The
// candidates are one common value with exceptions, runs, and bit packing with
// exceptions. Returns the smallest estimate.
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

// The offset width that makes the sampled blocks smallest.
PatchedWidth sampled_width(const Analysis& a) {
  OffsetWidths offsets;
  for (const uint32_t start : a.sample.starts) {
    const uint32_t b = start / kBlockValues;
    offsets.add_block(
        a.values.type,
        a.values.data + uint64_t{b} * kBlockValues * a.values.type.width,
        block_rows(b, a.values.size), a.blocks[b]);
  }
  PatchedWidth best;
  for (const auto* counts :
       {&offsets.above_min, &offsets.below_max, &offsets.median}) {
    const PatchedWidth width = cheapest_width(*counts, offsets.widest);
    if (width.bits_per_value < best.bits_per_value) best = width;
  }
  return best;
}

// Counts distinct values. Reusable without clearing its slots, for up to one
// sample at a time.
class DistinctCounter {
 public:
  uint32_t count(const std::vector<uint64_t>& values) {
    ++round_;
    uint32_t distinct = 0;
    for (const uint64_t v : values) {
      auto slot = static_cast<uint32_t>(v * 0x9e3779b97f4a7c15 >> 54);
      while (rounds_[slot] == round_ && slots_[slot] != v) {
        slot = (slot + 1) % kSlots;
      }
      distinct += rounds_[slot] != round_;
      rounds_[slot] = round_;
      slots_[slot] = v;
    }
    return distinct;
  }

 private:
  static constexpr uint32_t kSlots = 1024;  // 2^(64 - 54)
  static_assert(kSampleRuns * kSampleRunValues / kSplitSampleStep * 2 <=
                kSlots);

  uint64_t slots_[kSlots];
  uint8_t rounds_[kSlots] = {};
  uint8_t round_ = 0;
};

// Bits per value for the low bits. They are stored as offsets, or as codes;
// then each code also pays its share of the dictionary.
double low_width(const std::vector<uint64_t>& low, uint32_t bits, uint32_t rows,
                 DistinctCounter* counter) {
  const auto [least, most] = std::minmax_element(low.begin(), low.end());
  const double width = bit_width_of(*most - *least);
  const auto drawn = static_cast<uint32_t>(low.size());
  const uint32_t distinct = counter->count(low);
  if (distinct > drawn * kMaxSplitDistinctShare) return width;
  const double all = likely_distinct(distinct, drawn);
  return std::min(width, std::ceil(std::log2(all)) + all * bits / rows);
}

struct IntSplit {
  uint32_t low_bits = 0;
  double bits_per_value = 64;  // estimated
};

// The split that makes the sampled values smallest.
IntSplit choose_int_split(const Analysis& a) {
  const ValueType& type = a.values.type;
  std::vector<uint64_t> sampled;
  for (const uint32_t start : a.sample.starts) {
    for (uint32_t i = 0; i < a.sample.run_values; i += kSplitSampleStep) {
      sampled.push_back(load_int(type, a.values.data, start + i));
    }
  }
  IntSplit best;
  std::vector<uint64_t> low;
  DistinctCounter counter;
  for (uint32_t r = kMinSplitLowBits; r < 8 * type.width; r += 2) {
    // All values have the same high bits.
    if (bits_above(type, a.all.min, r) == bits_above(type, a.all.max, r)) break;
    double high_width = 0;
    for (const MinMax& block : a.blocks) {
      high_width += bit_width_of(bits_above(type, block.max, r) -
                                 bits_above(type, block.min, r));
    }
    high_width /= static_cast<double>(a.blocks.size());
    if (high_width >= best.bits_per_value) continue;
    low.clear();
    for (const uint64_t v : sampled) low.push_back(v & low_bits(r));
    const double bits = high_width + low_width(low, r, a.values.size, &counter);
    if (bits < best.bits_per_value) best = {r, bits};
  }
  return best;
}

double delta_share(const Analysis& a) {
  return a.is_compact() ? kCompactDeltaShare : kDeltaShare;
}

}  // namespace

namespace scheme {

// Evenly spaced positions are cheapest to search as delta.
constinit const Scheme kEvenDelta = {
    .id = EncodingId::kDelta,
    .stage = Stage::kAtOnce,
    .applies =
        [](const Analysis& a) {
          return a.context.random_access_only &&
                 a.values.size >= kMinSelectionValues && is_even(a.values);
        },
    .encode = encode_by<encode_delta>};

constinit const Scheme kBitPacked = {
    .id = EncodingId::kBitPacked,
    .stage = Stage::kSafe,
    .estimate =
        [](Analysis* a) {
          a->blocks = block_min_max(a->values);
          a->all = total_min_max(a->values.type, a->blocks);
          a->value_bits = a->all.width();
          a->packed_bytes =
              static_cast<double>(bit_packed_bytes(a->values.size, a->blocks));
          return a->packed_bytes < a->plain_bytes * kPlainShare
                     ? a->packed_bytes
                     : kNever;
        },
    .encode =
        [](Analysis* a, SegmentBuilder* out) {
          return written(encode_bit_packed(a->values, a->blocks, out));
        }};

constinit const Scheme kPlain = {
    .id = EncodingId::kPlain,
    .stage = Stage::kSafe,
    .estimate = [](Analysis* a) { return a->plain_bytes; },
    .encode = encode_by<encode_plain>};

constinit const Scheme kEven = {
    .id = EncodingId::kScaled,
    .stage = Stage::kAtOnce,
    .applies = [](const Analysis& a) { return is_even(a.values); },
    .encode = encode_by<encode_even>};

// A common divisor is removed before other schemes are tried. The quotients
// then choose an encoding of their own.
constinit const Scheme kScaled = {
    .id = EncodingId::kScaled,
    .stage = Stage::kAtOnce,
    .encode = [](Analysis* a, SegmentBuilder* out) -> Result<bool> {
      const Values& values = a->values;
      const uint64_t divisor = sampled_divisor(values, a->sample, a->all.min);
      if (divisor <= 1) return false;
      const double saved =
          values.size * std::log2(static_cast<double>(divisor)) / 8;
      const double bytes =
          std::min(values.size * a->value_bits / 8, a->packed_bytes) - saved;
      if (bytes >= a->best_bytes) return false;
      const auto scale = find_scale(values, a->all.min, divisor);
      if (!scale) return false;
      return written(encode_scaled(values, *scale, a->context, out));
    }};

constinit const Scheme kDelta = {
    .id = EncodingId::kDelta,
    .estimate =
        [](Analysis* a) {
          const uint32_t n = a->values.size;
          a->differences = sampled_differences(a->values, a->sample);
          a->delta_bytes = n * mean_delta_bits(*a) / 8 + n / 40.0;
          // Sampled runs are shorter than blocks and may miss outliers, so a
          // promising estimate is replaced by the exact size.
          if (a->is_below(delta_share(*a), a->delta_bytes)) {
            a->delta_bytes = static_cast<double>(delta_bytes(a->values));
          }
          if (!a->is_below(delta_share(*a), a->delta_bytes)) {
            a->delta_bytes = kNever;
          }
          return a->delta_bytes;
        },
    .encode = encode_by<encode_delta>};

constinit const Scheme kDifferences = {
    .id = EncodingId::kDifferences,
    .estimate =
        [](Analysis* a) {
          const uint32_t n = a->values.size;
          const double bytes =
              n * difference_bits(std::move(a->differences)) / 8 + n / 100.0;
          const double share =
              a->is_compact() ? kCompactDifferencesShare : kDifferencesShare;
          const bool is_smaller = bytes < a->delta_bytes * share &&
                                  a->is_below(delta_share(*a), bytes);
          return is_smaller ? bytes : kNever;
        },
    .encode = encode_by<encode_differences>};

constinit const Scheme kPatched = {
    .id = EncodingId::kBitPacked,
    .share = kPatchShare,
    .estimate =
        [](Analysis* a) {
          const PatchedWidth best = sampled_width(*a);
          a->patched_width = best.width;
          return a->values.size * best.bits_per_value / 8 +
                 a->values.size / 60.0;
        },
    .encode =
        [](Analysis* a, SegmentBuilder* out) {
          return written(encode_bit_packed_patched(
              a->values, a->blocks, a->patched_width, a->context, out));
        }};

constinit const Scheme kSplitInt = {
    .id = EncodingId::kSplitInt,
    .share = kSplitIntShare,
    .applies =
        [](const Analysis& a) {
          return a.values.type.width >= 4 &&
                 a.safe_bytes * 8 >= double{kMinSplitBits} * a.values.size;
        },
    .estimate =
        [](Analysis* a) {
          const IntSplit split = choose_int_split(*a);
          a->split_low_bits = split.low_bits;
          return a->values.size * split.bits_per_value / 8;
        },
    .encode =
        [](Analysis* a, SegmentBuilder* out) {
          return written(
              encode_split_int(a->values, a->split_low_bits, a->context, out));
        }};

}  // namespace scheme
}  // namespace nimble
