// HashIndex: encoded keys to candidate rows through a hash index of a file.
// The root is resident. A lookup needs one partition, and the Bloom filter
// where that is loaded. Mapped files are read in place; partitions of others
// are kept in the file's cache. Any number of threads may use one.
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

// Rows of many probes: those of probe i are [ends[i - 1], ends[i]) of rows.
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
  // `root` is what HashIndexWriter::finish() gave, its checksum verified.
  // The index borrows `file`.
  static Result<std::unique_ptr<HashIndex>> open(const OpenFile& file,
                                                 std::vector<uint8_t> root);
  ~HashIndex();
  HashIndex(const HashIndex&) = delete;
  HashIndex& operator=(const HashIndex&) = delete;

  uint64_t num_entries() const { return num_entries_; }  // rows indexed
  uint64_t num_keys() const { return num_keys_; }  // different hashes of theirs
  bool has_bloom() const { return !bloom_sections_.empty(); }
  // Bytes in the file, without the root.
  uint64_t size_bytes() const { return size_bytes_; }

  // Every row whose key is keys.key(i) is among the candidates of i; about
  // one in 3000 probes has one more. Rows of a probe ascend.
  Status find(const KeyBuffer& keys, CandidateRows* out) const;
  Status find_hashes(std::span<const uint64_t> hashes,
                     CandidateRows* out) const;
  // Reads everything: are there as many rows as the root says?
  Status check() const;
  // Appends the first candidate rows of one key: all of them, or at least
  // `enough` where a list of rows with one hash is long. Gives the row below
  // which none is left out; UINT64_MAX: there are no others.
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
  // One step of find_mapped: a few keys whose memory is fetched at once.
  Status find_few(std::span<const uint64_t> hashes, CandidateRows* out) const;
  Status corrupt(Status status, uint64_t partition) const;

  // Mapped files: a partition, null where no key is in it.
  Result<const HashPartition*> partition(uint64_t i) const {
    const HashPartition* p = views_[i].load(std::memory_order_acquire);
    if (p != nullptr) [[likely]] {
      return p;
    }
    return verify_partition(i);
  }
  Result<const HashPartition*> verify_partition(uint64_t i) const;
  // Other files: bytes of partitions, ascending numbers, in one round.
  Status fetch(std::span<const uint64_t> partitions,
               std::vector<Bytes>* out) const;

  // May the filter be asked by a caller with so many probes?
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
