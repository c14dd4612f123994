#include "nimble/index/hash_rows.h"

#include <algorithm>
#include <array>
#include <memory>

namespace nimble {
namespace {

// bits; the CPU can write to 2048 positions at once
constexpr uint32_t kMaxDigit = 11;
constexpr size_t kFewPairs = 24;  // sorted by insertion

bool before(const HashRow& a, const HashRow& b) {
  return a.hash != b.hash ? a.hash < b.hash : a.row < b.row;
}

void sort_few(HashRow* pairs, size_t n) {
  if (n > kFewPairs) {
    // Rows of equal hashes are usually added in order, and scattering preserves
    // that order.
    if (!std::is_sorted(pairs, pairs + n, before)) {
      std::sort(pairs, pairs + n, before);
    }
    return;
  }
  for (size_t i = 1; i < n; ++i) {
    const HashRow pair = pairs[i];
    size_t at = i;
    for (; at > 0 && before(pair, pairs[at - 1]); --at)
      pairs[at] = pairs[at - 1];
    pairs[at] = pair;
  }
}

using Counts = std::array<size_t, (size_t{1} << kMaxDigit) + 1>;

// Sorts pairs into buckets by `digit` bits of (hash - low) above `shift`.
// Bucket i becomes [(*ends)[i - 1], (*ends)[i]); the first bucket begins at 0.
void scatter(const HashRow* from, size_t n, uint64_t low, uint32_t shift,
             uint32_t digit, HashRow* to, Counts* ends) {
  const uint64_t mask = (uint64_t{1} << digit) - 1;
  if (digit == 0) shift = 0;  // one bucket; `shift` may be 64
  const auto bucket = [&](const HashRow& p) {
    return static_cast<size_t>(((p.hash - low) >> shift) & mask);
  };
  std::fill_n(ends->begin(), mask + 2, size_t{0});
  for (size_t i = 0; i < n; ++i) ++(*ends)[bucket(from[i]) + 1];
  for (size_t i = 1; i <= mask; ++i) (*ends)[i] += (*ends)[i - 1];
  // In this loop, (*ends)[i] grows from the beginning of bucket i to its end.
  for (size_t i = 0; i < n; ++i) to[(*ends)[bucket(from[i])]++] = from[i];
}

// Number of bits of a digit that leaves about `pairs_a_bucket` pairs per
// bucket. `bits` is the number of bits that differ.
uint32_t digit_of(size_t n, size_t pairs_a_bucket, uint32_t bits) {
  const auto wanted = bit_width_of(n / pairs_a_bucket);
  return std::min({wanted, bits, kMaxDigit});
}

}  // namespace

void HashRows::sort() {
  const size_t n = pairs_.size();
  if (n <= kFewPairs) return sort_few(pairs_.data(), n);
  uint64_t low = ~uint64_t{0}, high = 0;
  for (const HashRow& p : pairs_) {
    low = std::min(low, p.hash);
    high = std::max(high, p.hash);
  }
  scratch_.resize(n);
  const uint32_t bits = bit_width_of(high - low);
  const uint32_t first = digit_of(n, 512, bits);
  const auto ends = std::make_unique<Counts>();
  const auto inner = std::make_unique<Counts>();
  scatter(pairs_.data(), n, low, bits - first, first, scratch_.data(),
          ends.get());
  size_t begin = 0;
  for (size_t i = 0; i < size_t{1} << first; ++i) {
    const size_t size = (*ends)[i] - begin;
    const uint32_t second = digit_of(size, 4, bits - first);
    HashRow* to = pairs_.data() + begin;
    scatter(scratch_.data() + begin, size, low, bits - first - second, second,
            to, inner.get());
    size_t at = 0;
    for (size_t j = 0; j < size_t{1} << second; ++j) {
      sort_few(to + at, (*inner)[j] - at);
      at = (*inner)[j];
    }
    begin = (*ends)[i];
  }
}

}  // namespace nimble
