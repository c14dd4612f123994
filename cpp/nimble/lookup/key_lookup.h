// KeyCursor: encoded keys to file rows through the cluster index. One bound is
// at most one group (level 2) and one key chunk (level 3) that no cache holds.
#pragma once

#include <optional>
#include <vector>

#include "nimble/base/row_range.h"
#include "nimble/index/key_chunk.h"
#include "nimble/key/key_bounds.h"
#include "nimble/lookup/column_keys.h"

namespace nimble {

// Finds bounds; the group and chunk found last stay open. Not thread-safe;
// make one a thread or a batch.
class KeyCursor {
 public:
  // Borrows both. `wanted` are columns that the caller is about to read of the
  // rows it finds: where sampled keys cost a round of reads, they come with it.
  explicit KeyCursor(const ClusterIndex& index,
                     const RowReader* wanted = nullptr)
      : index_(index), file_(index.file()), columns_(index, wanted) {}

  // First file row whose key is >= target; num_rows() where there is none.
  Result<uint64_t> lower_bound(ByteSpan target);
  // Rows whose keys begin with `prefix` (a whole key, or its first columns).
  Result<RowRange> find_prefix(ByteSpan prefix);
  // The first row with a whole key, which the Bloom filter may rule out at
  // once.
  Result<std::optional<uint64_t>> find_first(ByteSpan key);
  // The rows of a whole key; the filter is not asked.
  Result<RowRange> find_whole(ByteSpan key);
  Result<RowRange> find_range(const KeyRange& range);
  // Replaces *key by the key that the index has of a file row; false where it
  // leaves it to the columns.
  Result<bool> stored_key_at(uint64_t row, ByteBuffer* key);
  // Where the rows end whose keys begin with `prefix`.
  Result<uint64_t> end_of(ByteSpan prefix);
  // Which rows' keys a search for `target` looks at in their columns.
  Result<RowRange> rows_to_read(ByteSpan target);
  // Reads the key columns of such rows (ascending, disjoint) in few rounds.
  Status fetch(std::span<const RowRange> rows) { return columns_.fetch(rows); }

 private:
  // The rows of a key or prefix that seek_chunk() has found the chunk of.
  Result<RowRange> find_here(ByteSpan key, bool whole);
  Status open_group(size_t group);
  Status open_chunk(size_t chunk);
  Status read_chunk(size_t chunk);  // of a file that is not mapped
  // Makes the chunk that may hold `target` current; false: after all keys.
  Result<bool> seek_chunk(ByteSpan target);

  const ClusterIndex& index_;
  const OpenFile& file_;
  ColumnKeys columns_;
  GroupHandle group_;
  size_t group_index_ = 0;
  size_t chunk_index_ = 0;
  bool has_chunk_ = false;
  std::optional<KeyChunk> chunk_;
  RangeCache::Bytes owner_;       // of a chunk that is not mapped
  uint64_t chunk_first_row_ = 0;  // file row
  ByteBuffer successor_;
};

// A key chunk of a mapped file, verified where it was not yet. `source` must
// outlive it.
Result<KeyChunk> open_mapped_chunk(const OpenFile& file,
                                   const LoadedGroup& group, size_t chunk,
                                   const KeySource* source);
// A group whose last key lies below its boundary.
Status ends_before_boundary(const OpenFile& file, size_t group);

// What one chunk says of the keys that begin with a probe, or equal it.
struct ChunkAnswer {
  uint32_t begin = 0;
  uint32_t end = 0;
  bool ends_here = true;  // false: `end` may lie in a later chunk
};
// `boundary` is the chunk's in its directory. A probe that is `whole` equals
// the keys it finds; only one if `unique`. `gap` is chunk.gap(probe).
struct ChunkProbe {
  ByteSpan key;
  KeyGap gap;
  bool whole = true;
  bool unique = false;
};
Result<ChunkAnswer> search_chunk(const KeyChunk& chunk, ByteSpan boundary,
                                 const ChunkProbe& probe, ByteBuffer* scratch);

}  // namespace nimble
