// ClusterIndex: the parts of a file's cluster index that are kept between
// searches. These are its Bloom filter, and the access to keys that sampled
// chunks do not store. Thread-safe.
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
  // Borrows the file. The file need not have a cluster index.
  explicit ClusterIndex(const OpenFile& file) : file_(file) {}

  const OpenFile& file() const { return file_; }

  // Returns the filter of whole keys, for a caller with `probes` keys to test.
  // May read the file. Returns null if the file does not have a filter. If the
  // file is not mapped, also returns null while loading the filter would cost
  // more than it could have saved for all probes so far.
  Result<const BloomFilter*> bloom(uint64_t probes) const;
  // Returns the keys of rows, computed from the key columns. Returns null if
  // the file stores all keys in chunks.
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
