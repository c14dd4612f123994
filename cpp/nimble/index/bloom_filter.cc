#include "nimble/index/bloom_filter.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "nimble/base/compiler.h"

namespace nimble {
namespace {

constexpr size_t kWords = 8;
constexpr uint32_t kSalts[kWords] = {0x47b6137bu, 0x44974d91u, 0x8824ad5bu,
                                     0xa2b7289du, 0x705495c7u, 0x2df1424bu,
                                     0x9efc4947u, 0x5c6bfb31u};
// The position of the block is computed from 32 bits of the hash.
constexpr uint64_t kMaxBlocks = uint64_t{1} << 31;

NIMBLE_ALWAYS_INLINE uint32_t bit_of(uint64_t hash, size_t word) {
  return uint32_t{1} << ((static_cast<uint32_t>(hash) * kSalts[word]) >> 27);
}

NIMBLE_ALWAYS_INLINE void set_bits(uint32_t* block, uint64_t hash) {
  for (size_t i = 0; i < kWords; ++i) block[i] |= bit_of(hash, i);
}

// A block as one vector. Without this type, the compiler processes the words of
// a block one by one.
using Words = uint32_t __attribute__((vector_size(kBloomBlockSize)));
using Half = uint64_t __attribute__((vector_size(kBloomBlockSize / 2)));

NIMBLE_ALWAYS_INLINE bool block_contains(const uint8_t* block, uint64_t hash) {
  Words words, salts;
  std::memcpy(&words, block, kBloomBlockSize);
  std::memcpy(&salts, kSalts, kBloomBlockSize);
  const Words bits = (Words{} + 1)
                     << (static_cast<uint32_t>(hash) * salts >> 27);
  const Words missing = bits & ~words;
  Half halves[2];
  std::memcpy(halves, &missing, kBloomBlockSize);
  const Half any = halves[0] | halves[1];
  return (any[0] | any[1]) == 0;
}

}  // namespace

uint64_t bloom_num_blocks(uint64_t num_keys, double bits_per_key) {
  const double bits =
      static_cast<double>(num_keys) * std::max(0.0, bits_per_key);
  const double most = static_cast<double>(kMaxBlocks) * 256;
  // If `bits` is NaN, the filter has one block.
  const uint64_t whole =
      bits > 0 ? static_cast<uint64_t>(std::min(bits, most)) : 0;
  return std::max<uint64_t>(1, div_ceil(whole, 256));
}

void bloom_insert(uint32_t* block, uint64_t hash) { set_bits(block, hash); }

NIMBLE_CLONES bool bloom_contains(const uint8_t* block, uint64_t hash) {
  return block_contains(block, hash);
}

BloomFilterBuilder::BloomFilterBuilder(uint64_t num_keys, double bits_per_key)
    : words_(bloom_num_blocks(num_keys, bits_per_key) * kWords) {}

void BloomFilterBuilder::insert(uint64_t hash) {
  set_bits(&words_[bloom_block(hash, words_.size() / kWords) * kWords], hash);
}

NIMBLE_CLONES void BloomFilterBuilder::insert(
    std::span<const uint64_t> hashes) {
  constexpr size_t kAhead = 16;
  const uint64_t blocks = words_.size() / kWords;
  for (size_t i = 0; i < hashes.size(); ++i) {
    if (i + kAhead < hashes.size()) {
      __builtin_prefetch(
          &words_[bloom_block(hashes[i + kAhead], blocks) * kWords], 1);
    }
    set_bits(&words_[bloom_block(hashes[i], blocks) * kWords], hashes[i]);
  }
}

ByteSpan BloomFilterBuilder::bytes() const {
  return {reinterpret_cast<const uint8_t*>(words_.data()),
          words_.size() * sizeof(uint32_t)};
}

Result<BloomFilter> BloomFilter::open(ByteSpan bytes) {
  if (bytes.empty() || bytes.size() % kBloomBlockSize != 0 ||
      bytes.size() / kBloomBlockSize > kMaxBlocks) {
    return Status::corrupt("a Bloom filter of " + std::to_string(bytes.size()) +
                           " bytes does not consist of whole blocks");
  }
  BloomFilter filter;
  filter.blocks_ = bytes.data();
  filter.num_blocks_ = bytes.size() / kBloomBlockSize;
  return filter;
}

bool BloomFilter::might_contain(uint64_t hash) const {
  return block_contains(
      blocks_ + bloom_block(hash, num_blocks_) * kBloomBlockSize, hash);
}

NIMBLE_CLONES void BloomFilter::might_contain(std::span<const uint64_t> hashes,
                                              uint8_t* may_contain) const {
  constexpr size_t kAhead = 16;
  // Local copies, because the compiler must assume that writes to `may_contain`
  // change this object.
  const uint8_t* const blocks = blocks_;
  const uint64_t num_blocks = num_blocks_;
  const auto block = [=](uint64_t hash) {
    return blocks + bloom_block(hash, num_blocks) * kBloomBlockSize;
  };
  const size_t n = hashes.size();
  // A small filter fits in the L1 and L2 caches, where prefetching only costs
  // time.
  constexpr uint64_t kNearBlocks = (uint64_t{128} << 10) / kBloomBlockSize;
  if (num_blocks <= kNearBlocks) {
    for (size_t i = 0; i < n; ++i) {
      may_contain[i] = block_contains(block(hashes[i]), hashes[i]) ? 1 : 0;
    }
    return;
  }
  for (size_t i = 0; i < n && i < kAhead; ++i) {
    __builtin_prefetch(block(hashes[i]));
  }
  for (size_t i = 0; i < n; ++i) {
    if (i + kAhead < n) __builtin_prefetch(block(hashes[i + kAhead]));
    may_contain[i] = block_contains(block(hashes[i]), hashes[i]) ? 1 : 0;
  }
}

}  // namespace nimble
