// ClusterIndex: what is kept of a file's cluster index between searches: its
// Bloom filter, and the keys that key chunks leave to the key columns. Any
// number of threads may use one.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "nimble/index/bloom_filter.h"
#include "nimble/io/read_lock.h"
#include "nimble/lookup/row_keys.h"
#include "nimble/open/open_file.h"

namespace nimble {

class ClusterIndex {
 public:
  // Borrows the file, which may have no cluster index.
  explicit ClusterIndex(const OpenFile& file) : file_(file) {}

  const OpenFile& file() const { return file_; }

  // The filter over whole keys, for a caller with `probes` keys to ask it
  // about. Null where there is none, and where the file is not mapped and
  // loading it would cost more than the probes so far could have saved.
  Result<const BloomFilter*> bloom(uint64_t probes) const;
  // The keys of rows as their columns have them, where key chunks leave keys to
  // these; null in a file that holds all keys in chunks.
  Result<const RowKeys*> row_keys() const;

 private:
  void after_fork(bool was_held);

  const OpenFile& file_;
  mutable ReadMutex mutex_{[this](bool was_held) { after_fork(was_held); }};
  mutable std::atomic<const BloomFilter*> bloom_{nullptr};
  mutable std::atomic<uint64_t> bloom_probes_{0};
  mutable std::optional<BloomFilter> bloom_filter_;
  mutable std::vector<uint8_t> bloom_bytes_;
  mutable std::atomic<const RowKeys*> row_keys_{nullptr};
  mutable std::unique_ptr<const RowKeys> row_keys_owner_;
};

}  // namespace nimble
