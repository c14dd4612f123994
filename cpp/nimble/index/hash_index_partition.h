// One partition of a hash index: for every key whose hash is in the
// partition, a fingerprint of the hash and the key's rows; no keys.
// Entries lie in buckets without gaps, a bucket's end is known. Everything is
// a place in the hash seen as a fraction of 2^64: its partition, its bucket
// there, and its fingerprint are three consecutive digits.
// docs/format/hash_index.md.
#pragma once

#include <vector>

#include "nimble/base/bit_packing.h"
#include "nimble/base/compiler.h"
#include "nimble/base/result.h"
#include "nimble/memory/byte_buffer.h"

namespace nimble {

// The whole digit of a fraction: floor(fraction * count / 2^64). What is left
// of the fraction goes to *rest.
inline uint64_t hash_digit(uint64_t fraction, uint64_t count, uint64_t* rest) {
  const auto product = static_cast<unsigned __int128>(fraction) * count;
  *rest = static_cast<uint64_t>(product);
  return static_cast<uint64_t>(product >> 64);
}

inline constexpr uint32_t kFingerprintBits = 14;
// An entry is loaded as eight bytes, whatever bit it begins at.
inline constexpr uint32_t kMaxEntryBits = 57;
// More rows of one hash than this are a list. Fewer are entries of their own,
// which take less room.
inline constexpr size_t kMaxEntriesOfHash = 4;
// Buckets that are filled to a load factor of 1 hold so many entries on
// average.
inline constexpr uint64_t kBucketEntries = 8;

// Collects entries in the order of their fractions, rows of one fraction
// ascending.
class HashPartitionBuilder {
 public:
  // Rows are below `num_rows`.
  HashPartitionBuilder(uint64_t num_rows, double load_factor)
      : num_rows_(num_rows), load_factor_(load_factor) {}

  bool empty() const { return entries_.empty() && num_group_ == 0; }
  Status add(uint64_t fraction, uint64_t row);
  // The partition's bytes; the builder is empty then.
  Result<std::vector<uint8_t>> finish();

 private:
  struct Entry {
    uint64_t fraction;
    uint64_t value;  // a row, or num_rows + where in lists_ a list begins
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
  // Rows of the last fraction: the first few, then a list's last block.
  uint64_t fraction_ = 0;
  uint64_t num_group_ = 0;  // rows
  uint64_t last_row_ = 0;
  uint64_t few_[kMaxEntriesOfHash] = {};
  std::vector<uint64_t> gaps_;  // rows between a list's neighbouring rows
};

// A partition's bytes, which it borrows and whose checksum has been verified.
// Bytes of a hostile writer give wrong candidates or an error, nothing worse.
class HashPartition {
 public:
  static Result<HashPartition> open(ByteSpan bytes, uint64_t num_rows);

  uint32_t num_entries() const { return num_entries_; }

  // A lookup in three steps, so that a batch can do each for many keys while
  // memory is on its way.
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
  // Appends the first of them: of each list at least `enough` rows, if it has
  // so many. Lowers *known_below to the row below which none is left out.
  Status find_first(const Place& place, size_t enough,
                    std::vector<uint64_t>* rows, uint64_t* known_below) const;
  // Adds the number of rows of all entries.
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
