// HashIndexWriter: a hash index over encoded keys of rows in any order, built
// within a memory budget. What is stored is row numbers and fingerprints, no
// keys: answers are candidates. docs/format/hash_index.md.
//
//   add* finish
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nimble/index/hash_rows.h"
#include "nimble/index/section_sink.h"
#include "nimble/index/spilled_hashes.h"
#include "nimble/io/external_sorter.h"
#include "nimble/key/key_buffer.h"

namespace nimble {

// Entries of a partition on average. At 10 million rows it takes 160 KB: one
// read of a cold lookup.
inline constexpr uint64_t kHashPartitionEntries = 32768;
// Blocks of a part of the Bloom filter, which has a checksum of its own.
inline constexpr uint64_t kBloomPartBlocks = 8192;

struct HashIndexOptions {
  double load_factor = 0.7;          // in (0, 1]: see docs/format/hash_index.md
  double bloom_bits_per_key = 10.0;  // 0: no filter
  uint64_t memory_bytes = uint64_t{64} << 20;
  std::string spill_directory;   // see SpillFile
  std::function<Status()> poll;  // as of ExternalSorter
};

class HashIndexWriter {
 public:
  static Result<std::unique_ptr<HashIndexWriter>> create(
      HashIndexOptions options);

  // Keys [begin, end) are those of file rows first_row and following.
  Status add(const KeyBuffer& keys, size_t begin, size_t end,
             uint64_t first_row);
  uint64_t num_entries() const { return num_entries_; }

  // Writes partitions and the Bloom filter; gives the root, a FlatBuffer
  // (schemas/hash_index.fbs) for the caller to store.
  Result<std::vector<uint8_t>> finish(const SectionSink& sink);
  // Of what finish() wrote.
  uint64_t num_keys() const { return num_keys_; }
  bool has_bloom() const { return !bloom_parts_.empty(); }

 private:
  explicit HashIndexWriter(HashIndexOptions options);

  Status write_partitions(const SectionSink& sink);
  Status write_bloom(const SectionSink& sink);

  HashIndexOptions options_;
  ExternalSorter<HashRows> sorter_;
  uint64_t num_entries_ = 0;
  uint64_t num_rows_ = 0;  // 1 + the highest row added
  uint64_t num_keys_ = 0;
  std::vector<SectionRef> partitions_;
  std::vector<SectionRef> bloom_parts_;
  SpilledHashes hashes_;  // different ones, ascending
};

}  // namespace nimble
