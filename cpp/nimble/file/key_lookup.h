// KeyLookup: encoded keys to file rows through the cluster index. One bound is
// at most one group (level 2) and one key chunk (level 3) that no cache holds.
#pragma once

#include <optional>
#include <vector>

#include "nimble/base/row_range.h"
#include "nimble/file/file_reader.h"
#include "nimble/index/key_chunk.h"
#include "nimble/key/key_bounds.h"

namespace nimble {

// Finds bounds, cheapest in ascending order: the group and chunk found last
// stay open. Not thread-safe; make one a thread or a batch.
class KeyCursor {
 public:
  explicit KeyCursor(const FileReader& file) : file_(file) {}

  // First file row whose key is >= target; num_rows() where there is none.
  Result<uint64_t> lower_bound(ByteSpan target);
  // Rows whose keys begin with `prefix` (a whole key, or its first columns).
  Result<RowRange> find_prefix(ByteSpan prefix);
  // The same for a whole key, which the Bloom filter may rule out at once.
  Result<RowRange> find_key(ByteSpan key);
  // The same without asking the filter.
  Result<RowRange> find_whole(ByteSpan key);
  Result<RowRange> find_range(const KeyRange& range);
  // Replaces *key by the key of a file row.
  Status key_at(uint64_t row, ByteBuffer* key);

 private:
  Status open_group(size_t group);
  Status open_chunk(size_t chunk);
  // Makes the chunk that may hold `target` current; false: after all keys.
  Result<bool> seek_chunk(ByteSpan target);

  const FileReader& file_;
  const LoadedGroup* group_ = nullptr;
  size_t group_index_ = 0;
  size_t chunk_index_ = 0;
  bool has_chunk_ = false;
  std::optional<KeyChunk> chunk_;
  RangeCache::Bytes owner_;      // of a chunk that is not mapped
  uint64_t chunk_first_row_ = 0;  // file row
  uint32_t last_ = 0;             // answer of the last search in the chunk
  ByteBuffer last_target_;
  ByteBuffer successor_;
  ByteBuffer found_;
};

// Row ranges of many whole keys or prefixes, in the order of `keys`. Probes
// are sorted once; groups and chunks are opened once each. `keys` hold whole
// keys if `whole`.
Status find_keys(const FileReader& file, const KeyBuffer& keys, bool whole,
                 std::vector<RowRange>* out);

}  // namespace nimble
