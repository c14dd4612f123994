// One partition of a hash index. For every key whose hash is in the partition,
// it has a fingerprint of the hash and the key's rows. Keys are not stored.
// Entries are in buckets without gaps, and the end of each bucket is stored.
//
// A hash is regarded as a fraction of 2^64. Its partition, its bucket and its
// fingerprint are three consecutive digits of the fraction.
// docs/format/hash_index.md.
#pragma once

#include <vector>

#include "nimble/base/bit_packing.h"
#include "nimble/base/compiler.h"
#include "nimble/base/result.h"
#include "nimble/memory/byte_buffer.h"

namespace nimble {

// Returns the first digit of a fraction: floor(fraction * count / 2^64). Sets
// *rest to the remaining fraction.
inline uint64_t hash_digit(uint64_t fraction, uint64_t count, uint64_t* rest) {
  const auto product = static_cast<unsigned __int128>(fraction) * count;
  *rest = static_cast<uint64_t>(product);
  return static_cast<uint64_t>(product >> 64);
}

inline constexpr uint32_t kFingerprintBits = 14;
// An entry is loaded as eight bytes, from any bit offset.
inline constexpr uint32_t kMaxEntryBits = 57;
// If more rows than this have the same hash, they are stored as a list. Fewer
// rows are separate entries, which take less space.
inline constexpr size_t kMaxEntriesOfHash = 4;
// Average number of entries per bucket for load factor 1.
inline constexpr uint64_t kBucketEntries = 8;

// Builds one partition. Not thread-safe.
// REQUIRES: entries are added in the order of their fractions; rows of equal
// fractions ascend.
class HashPartitionBuilder {
 public:
  // REQUIRES: all rows are below `num_rows`.
  HashPartitionBuilder(uint64_t num_rows, double load_factor)
      : num_rows_(num_rows), load_factor_(load_factor) {}

  bool empty() const { return entries_.empty() && num_group_ == 0; }
  Status add(uint64_t fraction, uint64_t row);
  // Returns the partition's bytes and empties the builder.
  Result<std::vector<uint8_t>> finish();

 private:
  struct Entry {
    uint64_t fraction;
    uint64_t value;  // a row, or num_rows + a list's offset in lists_
  };
  static constexpr size_t kListBlock = 256;

  void end_group();
  void begin_list();
  void write_block(bool more);
  ByteBuffer pack(uint32_t value_bits);

  const uint64_t num_rows_;
  const double load_factor_;
  std::vector<Entry> entries_;
  ByteBuffer lists_;
  // Rows of the last fraction: the first rows in few_, then the unfinished
  // block of a list in gaps_.
  uint64_t fraction_ = 0;
  uint64_t num_group_ = 0;  // rows
  uint64_t last_row_ = 0;
  uint64_t few_[kMaxEntriesOfHash] = {};
  std::vector<uint64_t> gaps_;  // differences between adjacent rows
};

// A view of a partition's bytes, which it borrows. Hostile bytes cause wrong
// candidates or an error, but no invalid access. Thread-safe.
// REQUIRES: the checksum is verified.
class HashPartition {
 public:
  static Result<HashPartition> open(ByteSpan bytes, uint64_t num_rows);

  uint32_t num_entries() const { return num_entries_; }

  // A lookup has three steps, so that a batch can run each step for many keys
  // while memory is prefetched.
  struct Place {
    uint32_t begin, end;  // entries
    uint64_t fingerprint;
  };
  void prefetch_bucket(uint64_t fraction) const {
    uint64_t rest;
    __builtin_prefetch(ends_ + hash_digit(fraction, num_buckets_, &rest) *
                                   end_bits_ / 8);
  }
  NIMBLE_ALWAYS_INLINE Place place(uint64_t fraction) const {
    uint64_t rest;
    const uint64_t bucket = hash_digit(fraction, num_buckets_, &rest);
    const auto begin = bucket == 0 ? 0 : bits(ends_, bucket - 1, end_bits_);
    return {static_cast<uint32_t>(begin),
            static_cast<uint32_t>(bits(ends_, bucket, end_bits_)),
            rest >> (64 - fingerprint_bits_)};
  }
  void prefetch_entries(const Place& place) const {
    const uint64_t bit = uint64_t{place.begin} * entry_bits_;
    if (place.begin >= num_entries_) return;
    __builtin_prefetch(entries_ + bit / 8);
    __builtin_prefetch(entries_ + bit / 8 + 64);
  }
  // Appends the candidate rows, ascending.
  Status find(const Place& place, std::vector<uint64_t>* rows) const {
    uint64_t known_below;
    return find_first(place, SIZE_MAX, rows, &known_below);
  }
  // Appends the first candidates. Lists with more than `enough` rows may be cut
  // after at least `enough` rows. Lowers *known_below accordingly: all
  // candidates below that row have been appended.
  Status find_first(const Place& place, size_t enough,
                    std::vector<uint64_t>* rows, uint64_t* known_below) const;
  // Adds the number of rows of all entries to *count.
  Status count_rows(uint64_t* count) const;

 private:
  static uint64_t bits(const uint8_t* from, uint64_t i, uint32_t width) {
    const uint64_t bit = i * width;
    return load<uint64_t>(from + bit / 8) >> (bit % 8) & low_bits(width);
  }
  Status read_list(uint64_t at, size_t enough, std::vector<uint64_t>* rows,
                   uint64_t* known_below) const;

  const uint8_t* ends_ = nullptr;
  const uint8_t* entries_ = nullptr;
  ByteSpan lists_;
  uint64_t num_rows_ = 0;
  uint32_t num_entries_ = 0;
  uint32_t num_buckets_ = 0;
  uint32_t fingerprint_bits_ = 0;
  uint32_t entry_bits_ = 0;
  uint32_t end_bits_ = 0;
};

}  // namespace nimble
