#include "nimble/encoding/choose/value_sample.h"

#include <algorithm>
#include <cmath>

#include "nimble/base/hash.h"

namespace nimble {
namespace {

// Equal values have equal hashes. Collisions are rare enough for a sample.
uint64_t hash_value(const Values& values, uint32_t row) {
  const uint32_t width = values.type.width;
  const uint8_t* p = values.data + uint64_t{row} * width;
  if (width == 8) return load<uint64_t>(p) * 0x9e3779b97f4a7c15;
  if (width == 4) return load<uint32_t>(p) * 0x9e3779b97f4a7c15;
  return checksum64({p, width});
}

// Counts hashes, with room for the values of one sample.
class HashCounter {
 public:
  static constexpr uint32_t kSlots = 4096;

  // Adds `hash` and returns how often it has been added.
  uint32_t add(uint64_t hash) {
    uint32_t slot = static_cast<uint32_t>(hash >> 52);
    while (counts_[slot] != 0 && hashes_[slot] != hash) {
      slot = (slot + 1) % kSlots;
    }
    hashes_[slot] = hash;
    return ++counts_[slot];
  }

 private:
  uint64_t hashes_[kSlots];
  uint16_t counts_[kSlots] = {};
};

static_assert(kSampleRuns * kSampleRunValues * 2 <= HashCounter::kSlots);

void place_runs(uint32_t n, ValueSample* sample) {
  if (n <= kSampleRuns * kSampleRunValues) {
    sample->starts = {0};
    sample->run_values = n;
    return;
  }
  sample->run_values = kSampleRunValues;
  for (uint32_t i = 0; i < kSampleRuns; ++i) {
    const uint64_t begin = uint64_t{n} * i / kSampleRuns;
    const uint64_t end = uint64_t{n} * (i + 1) / kSampleRuns;
    // A run starts at a pseudo-random but fixed place in its sixteenth, so that
    // periodic data does not have the same phase in every run.
    const uint64_t room = end - begin - kSampleRunValues + 1;
    const uint64_t place = ((i + 1) * 0x9e3779b97f4a7c15) >> 32;
    sample->starts.push_back(static_cast<uint32_t>(begin + place % room));
  }
}

}  // namespace

double likely_distinct(uint32_t distinct, uint32_t drawn) {
  // If values repeat this often, the sample has seen nearly all of them.
  if (distinct * 4 < drawn) return std::max(distinct, 1u);
  if (distinct >= drawn) return 1e9;
  // Solves distinct = D * (1 - exp(-drawn / D)) for D by iteration from below.
  double all = distinct;
  for (int i = 0; i < 200; ++i) {
    all = distinct / (1 - std::exp(-static_cast<double>(drawn) / all));
  }
  return all;
}

ValueSample take_sample(const Values& values) {
  ValueSample sample;
  place_runs(values.size, &sample);
  HashCounter counter;
  for (const uint32_t start : sample.starts) {
    uint64_t before = 0;
    for (uint32_t i = 0; i < sample.run_values; ++i) {
      const uint64_t hash = hash_value(values, start + i);
      const uint32_t count = counter.add(hash);
      if (count == 1) ++sample.distinct;
      if (count > sample.top_count) {
        sample.top_count = count;
        sample.top_row = start + i;
      }
      if (i > 0) {
        ++sample.pairs;
        sample.changes += hash != before;
      }
      before = hash;
    }
    sample.size += sample.run_values;
  }
  return sample;
}

Values sampled_values(const Values& values, const ValueSample& sample,
                      std::vector<uint8_t>* data) {
  const uint64_t width = values.type.width;
  for (const uint32_t start : sample.starts) {
    const uint8_t* p = values.data + start * width;
    data->insert(data->end(), p, p + sample.run_values * width);
  }
  Values out = values;
  out.size = sample.size;
  out.data = data->data();
  return out;
}

}  // namespace nimble
