// HashIndexWriter: builds a hash index over encoded keys of rows in any order,
// within a memory budget. It stores row numbers and fingerprints, but no keys,
// so lookups return candidates. Not thread-safe. docs/format/hash_index.md.
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

// Average number of entries in a partition. With 10 million rows a partition
// takes 160 KB, which a cold lookup reads at once.
inline constexpr uint64_t kHashPartitionEntries = 32768;
// Blocks in a part of the Bloom filter. Each part has its own checksum.
inline constexpr uint64_t kBloomPartBlocks = 8192;

// Options of a HashIndexWriter.
struct HashIndexOptions {
  double load_factor = 0.7;          // in (0, 1]: docs/format/hash_index.md
  double bloom_bits_per_key = 10.0;  // 0: no filter
  uint64_t memory_bytes = uint64_t{64} << 20;
  std::string spill_directory;   // see SpillFile
  std::function<Status()> poll;  // see ExternalSorter
};

class HashIndexWriter {
 public:
  static Result<std::unique_ptr<HashIndexWriter>> create(
      HashIndexOptions options);

  // Adds keys [begin, end), which belong to file rows first_row and following.
  // May spill to disk.
  Status add(const KeyBuffer& keys, size_t begin, size_t end,
             uint64_t first_row);
  uint64_t num_entries() const { return num_entries_; }

  // Writes partitions and the Bloom filter. Returns the root, a FlatBuffer
  // (schemas/hash_index.fbs) that the caller must store.
  Result<std::vector<uint8_t>> finish(const SectionSink& sink);
  // Valid after finish().
  uint64_t num_keys() const { return num_keys_; }
  bool has_bloom() const { return !bloom_parts_.empty(); }

 private:
  explicit HashIndexWriter(HashIndexOptions options);

  Status write_partitions(const SectionSink& sink);
  Status write_bloom(const SectionSink& sink);

  HashIndexOptions options_;
  ExternalSorter<HashRows> sorter_;
  uint64_t num_entries_ = 0;
  uint64_t num_rows_ = 0;  // highest row added + 1
  uint64_t num_keys_ = 0;
  std::vector<SectionRef> partitions_;
  std::vector<SectionRef> bloom_parts_;
  SpilledHashes hashes_;  // distinct hashes, ascending
};

}  // namespace nimble
