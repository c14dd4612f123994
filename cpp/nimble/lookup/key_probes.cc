#include "nimble/lookup/key_probes.h"

#include <algorithm>

#include "nimble/base/hash.h"
#include "nimble/key/key_sort.h"

namespace nimble {
namespace {

bool begins_with(ByteSpan key, ByteSpan prefix) {
  return prefix.size() <= key.size() &&
         compare_bytes(key.first(prefix.size()), prefix) == 0;
}

}  // namespace

KeyProbes::KeyProbes(const KeyBuffer& keys) : keys_(keys), ranks_(keys.size()) {
  std::vector<uint64_t> order;
  sort_keys(keys, &order);
  numbers_.reserve(order.size());
  for (const uint64_t i : order) {
    if (numbers_.empty() ||
        compare_bytes(keys.key(i), keys.key(numbers_.back())) != 0) {
      numbers_.push_back(i);
    }
    ranks_[i] = numbers_.size() - 1;
  }
  hashes_.resize(numbers_.size());
  for (size_t i = 0; i < hashes_.size(); ++i) {
    hashes_[i] = key_hash64(keys.key(numbers_[i]));
  }
}

ProbeSpan KeyProbes::part(size_t begin, size_t end) const {
  return {&keys_, std::span(numbers_).subspan(begin, end - begin),
          std::span(hashes_).subspan(begin, end - begin)};
}

ProbeSpan KeyProbes::between(ByteSpan lower, ByteSpan upper) const {
  const auto first = std::partition_point(
      numbers_.begin(), numbers_.end(), [&](uint64_t number) {
        const ByteSpan key = keys_.key(number);
        return compare_bytes(key, lower) < 0 && !begins_with(lower, key);
      });
  const auto last =
      std::partition_point(first, numbers_.end(), [&](uint64_t number) {
        return compare_bytes(keys_.key(number), upper) <= 0;
      });
  return part(static_cast<size_t>(first - numbers_.begin()),
              static_cast<size_t>(last - numbers_.begin()));
}

}  // namespace nimble
