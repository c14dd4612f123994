#include "nimble/encoding/choose/split_choice.h"

#include <algorithm>
#include <cmath>

#include "nimble/base/bit_packing.h"
#include "nimble/encoding/choose/constants.h"
#include "nimble/encoding/ints/split_int.h"

namespace nimble {
namespace {

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

// Bits per value of the low bits: as offsets, or as codes with their share of a
// dictionary.
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

}  // namespace

IntSplit choose_int_split(const Values& values, const ValueSample& sample,
                          const std::vector<MinMax>& blocks) {
  const ValueType& type = values.type;
  std::vector<uint64_t> sampled;
  for (const uint32_t start : sample.starts) {
    for (uint32_t i = 0; i < sample.run_values; i += kSplitSampleStep) {
      sampled.push_back(load_int(type, values.data, start + i));
    }
  }
  IntSplit best;
  std::vector<uint64_t> low;
  DistinctCounter counter;
  const MinMax all = total_min_max(type, blocks);
  for (uint32_t r = kMinSplitLowBits; r < 8 * type.width; r += 2) {
    // All values have the same high bits.
    if (bits_above(type, all.min, r) == bits_above(type, all.max, r)) break;
    double high_width = 0;
    for (const MinMax& block : blocks) {
      high_width += bit_width_of(bits_above(type, block.max, r) -
                                 bits_above(type, block.min, r));
    }
    high_width /= static_cast<double>(blocks.size());
    if (high_width >= best.bits_per_value) continue;
    low.clear();
    for (const uint64_t v : sampled) low.push_back(v & low_bits(r));
    const double bits = high_width + low_width(low, r, values.size, &counter);
    if (bits < best.bits_per_value) best = {r, bits};
  }
  return best;
}

}  // namespace nimble
