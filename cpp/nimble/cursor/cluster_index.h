// ClusterIndex: the part of a file's cluster index that is kept between
// searches: its Bloom filter, and access to keys that key chunks leave to the
// key columns. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "nimble/cursor/row_keys.h"
#include "nimble/index/bloom_filter.h"
#include "nimble/io/read_lock.h"
#include "nimble/open/open_file.h"

namespace nimble {

class ClusterIndex {
 public:
  // Borrows the file, which may lack a cluster index.
  explicit ClusterIndex(const OpenFile& file) : file_(file) {}

  const OpenFile& file() const { return file_; }

  // The filter over whole keys, for a caller with `probes` keys to test. May
  // read the file. Null if the file has no filter. Also null if the file is not
  // mapped and loading the filter would cost more than all probes so far could
  // have saved.
  Result<const BloomFilter*> bloom(uint64_t probes) const;
  // The keys of rows, computed from the key columns. Null if the file stores
  // all keys in chunks.
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
