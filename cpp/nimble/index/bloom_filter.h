// Split-block Bloom filter, bit-compatible with Parquet's: a hash selects a
// block of 256 bits and sets one bit in each of its eight words. The hash is
// key_hash64 of the encoded key. docs/format/key_chunks.md.
#pragma once

#include <span>
#include <vector>

#include "nimble/base/bytes.h"
#include "nimble/base/hash.h"
#include "nimble/base/result.h"

namespace nimble {

inline constexpr size_t kBloomBlockSize = 32;  // bytes

// The block of a hash. Multiply-shift allows any number of blocks, not only
// powers of two.
inline uint64_t bloom_block(uint64_t hash, uint64_t num_blocks) {
  return ((hash >> 32) * num_blocks) >> 32;
}

// Number of blocks of a filter for `num_keys` keys, at least 1.
uint64_t bloom_num_blocks(uint64_t num_keys, double bits_per_key);
// Sets or tests the bits of a hash in its block of eight words.
void bloom_insert(uint32_t* block, uint64_t hash);
bool bloom_contains(const uint8_t* block, uint64_t hash);

// Builds a filter in memory. Not thread-safe.
class BloomFilterBuilder {
 public:
  // With 10 bits per key, the filter wrongly reports about 1 % of absent keys
  // as possible.
  BloomFilterBuilder(uint64_t num_keys, double bits_per_key);

  void insert(uint64_t hash);
  void insert(std::span<const uint64_t> hashes);
  // The words, little-endian. Valid until the next insert().
  ByteSpan bytes() const;

 private:
  std::vector<uint32_t> words_;
};

// Reads a filter. Thread-safe.
class BloomFilter {
 public:
  // Borrows the bytes, at any alignment. Fails unless they are a positive
  // number of blocks.
  static Result<BloomFilter> open(ByteSpan bytes);

  uint64_t num_blocks() const { return num_blocks_; }
  bool might_contain(uint64_t hash) const;
  bool might_contain(ByteSpan key) const {
    return might_contain(key_hash64(key));
  }
  // Sets may_contain[i] to 1 if hashes[i] may be in the set, else to 0.
  void might_contain(std::span<const uint64_t> hashes,
                     uint8_t* may_contain) const;

 private:
  const uint8_t* blocks_ = nullptr;
  uint64_t num_blocks_ = 0;
};

}  // namespace nimble
