// HashIndex: finds candidate rows for encoded keys in a hash index of a file.
// The root is in memory. A lookup needs one partition, and the Bloom filter if
// the filter is loaded. Mapped files are accessed in place. For other files,
// partitions are kept in the file's cache. Thread-safe.
// docs/format/hash_index.md.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "nimble/index/hash_index_partition.h"
#include "nimble/io/read_lock.h"
#include "nimble/key/key_buffer.h"
#include "nimble/open/open_file.h"

namespace nimble {

// The rows of many probes. Probe i has rows[ends[i - 1], ends[i]).
struct CandidateRows {
  std::vector<uint64_t> ends;
  std::vector<uint64_t> rows;

  void clear() {
    ends.clear();
    rows.clear();
  }
};

class HashIndex {
 public:
  // Borrows `file`.
  // REQUIRES: `root` was written by HashIndexWriter::finish(), and its checksum
  // is verified.
  static Result<std::unique_ptr<HashIndex>> open(const OpenFile& file,
                                                 std::vector<uint8_t> root);
  ~HashIndex();
  HashIndex(const HashIndex&) = delete;
  HashIndex& operator=(const HashIndex&) = delete;

  uint64_t num_entries() const { return num_entries_; }  // rows indexed
  uint64_t num_keys() const { return num_keys_; }        // distinct key hashes
  bool has_bloom() const { return !bloom_sections_.empty(); }
  // Size in the file in bytes, without the root.
  uint64_t size_bytes() const { return size_bytes_; }

  // Finds candidate rows. The candidates of probe i include every row whose key
  // is keys.key(i), and ascend. About one in 3000 probes has a false candidate.
  // May read the file.
  Status find(const KeyBuffer& keys, CandidateRows* out) const;
  Status find_hashes(std::span<const uint64_t> hashes,
                     CandidateRows* out) const;
  // Reads the whole index. Fails unless the index has as many rows as its root
  // says.
  Status check() const;
  // Appends the first candidate rows of one key. If many rows have the same
  // hash, may stop after at least `enough` rows. All candidates below the
  // returned row are appended. Returns UINT64_MAX if all candidates are
  // appended.
  Result<uint64_t> find_first(ByteSpan key, size_t enough,
                              std::vector<uint64_t>* rows) const;

 private:
  struct Probe {
    const HashPartition* partition = nullptr;  // null: the key is absent
    uint64_t fraction = 0;
    HashPartition::Place place{};
  };
  using Bytes = RangeCache::Bytes;

  explicit HashIndex(const OpenFile& file) : file_(file) {}
  Status parse(const std::vector<uint8_t>& root);
  Status check_sections(const std::vector<SectionRef>& sections,
                        const char* what);

  Status find_mapped(std::span<const uint64_t> hashes,
                     CandidateRows* out) const;
  Status find_fetched(std::span<const uint64_t> hashes,
                      CandidateRows* out) const;
  // One step of find_mapped(): a few keys, whose memory is prefetched together.
  Status find_few(std::span<const uint64_t> hashes, CandidateRows* out) const;
  Status corrupt(Status status, uint64_t partition) const;

  // For mapped files: returns a partition, or null if the partition is empty.
  Result<const HashPartition*> partition(uint64_t i) const {
    const HashPartition* p = views_[i].load(std::memory_order_acquire);
    if (p != nullptr) [[likely]] {
      return p;
    }
    return verify_partition(i);
  }
  Result<const HashPartition*> verify_partition(uint64_t i) const;
  // For other files: reads the bytes of partitions in one round.
  // REQUIRES: partition numbers are ascending.
  Status fetch(std::span<const uint64_t> partitions,
               std::vector<Bytes>* out) const;

  // Loads the filter if loading it is worthwhile for `probes` more keys.
  // Returns whether the filter can be used.
  Result<bool> load_bloom(uint64_t probes) const;
  Status verify_bloom_part(uint64_t part) const;
  Result<bool> might_contain(uint64_t hash) const;

  const OpenFile& file_;
  uint64_t num_rows_ = 0;
  uint64_t num_entries_ = 0;
  uint64_t num_keys_ = 0;
  uint64_t size_bytes_ = 0;
  uint64_t bloom_blocks_ = 0;
  std::vector<SectionRef> partitions_;
  std::vector<SectionRef> bloom_sections_;
  std::unique_ptr<std::atomic<const HashPartition*>[]> views_;
  std::unique_ptr<std::atomic<const uint8_t*>[]> bloom_parts_;
  mutable std::atomic<bool> bloom_loaded_{false};
  mutable std::atomic<uint64_t> bloom_probes_{0};
  mutable std::vector<uint8_t> bloom_bytes_;
  mutable ReadMutex bloom_mutex_{[this](bool was_held) {
    if (was_held && !bloom_loaded_.load()) reinit_leaking(&bloom_bytes_);
  }};
};

}  // namespace nimble
