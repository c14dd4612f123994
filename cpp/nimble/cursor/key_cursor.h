// KeyCursor: searches the ascending keys of the cluster index or of a sorted
// index, and returns places. Finding one bound reads at most one group and one
// key chunk.
#pragma once

#include "nimble/base/row_range.h"
#include "nimble/cursor/column_keys.h"
#include "nimble/cursor/key_chunk_loader.h"
#include "nimble/io/slot_cache.h"
#include "nimble/key/key_bounds.h"

namespace nimble {

// A group of an index. The group remains in memory as long as the handle
// exists.
using KeyGroupHandle = SlotHandle<KeyChunkGroup>;

// The stored keys of an index: chunks in groups, ascending. Thread-safe.
class KeyOrder {
 public:
  virtual ~KeyOrder() = default;
  virtual const OpenFile& file() const = 0;
  virtual uint64_t num_keys() const = 0;
  // The boundary of each group: its last key, or a key between its last key and
  // the next group's first key.
  virtual const ChunkDirectory& groups() const = 0;
  // Returns the group that contains the key at `place`.
  // REQUIRES: place < num_keys().
  virtual size_t group_at(uint64_t place) const = 0;
  // Returns group i. May block on a read.
  virtual Result<KeyGroupHandle> group(size_t i) const = 0;
};

// The error for a group whose last key is below its boundary.
Status ends_before_boundary(const OpenFile& file, size_t group);

// Keeps the last group and chunk that it opened. May block on reads. Not
// thread-safe: create one per thread or per batch.
class KeyCursor {
 public:
  // Borrows both. `columns` has the keys that sampled chunks do not store, or
  // is null if all keys are stored.
  explicit KeyCursor(const KeyOrder& order, ColumnKeys* columns = nullptr)
      : order_(order), columns_(columns) {}

  // The first place whose key is >= target, or num_keys() if all keys are below
  // it. Cheapest for ascending targets.
  Result<uint64_t> lower_bound(ByteSpan target);
  // Returns the places of keys that begin with `prefix`. A prefix is a whole
  // key or the values of its first columns.
  Result<RowRange> find_prefix(ByteSpan prefix);
  Result<RowRange> find_range(const KeyRange& range);
  // The end of the places of keys that begin with `prefix`.
  Result<uint64_t> end_of(ByteSpan prefix);

  // Opens the chunk that may contain `target`. Returns false if `target` is
  // after all keys.
  Result<bool> open_chunk_of(ByteSpan target);
  // Opens the chunk that contains the key at `place`.
  Status open_chunk_at(uint64_t place);
  // Whether the key at this place is in the open chunk.
  bool is_open(uint64_t place) const {
    return is_open_ && place >= chunk_.first &&
           place - chunk_.first < chunk_.chunk->num_keys();
  }
  // The open chunk, the place of its first key, and its boundary.
  // REQUIRES: a chunk is open.
  const KeyChunk& chunk() const { return *chunk_.chunk; }
  uint64_t first_place() const { return chunk_.first; }
  ByteSpan boundary() const { return group_->boundaries().boundary(number_); }

 private:
  Status open_group(size_t group);
  Status open_chunk(size_t chunk);

  const KeyOrder& order_;
  ColumnKeys* columns_;
  KeyGroupHandle group_;
  size_t group_number_ = 0;
  size_t number_ = 0;  // of the open chunk in its group
  bool is_open_ = false;
  OpenKeyChunk chunk_;
  uint32_t last_ = 0;  // result of the last search in the open chunk
  ByteBuffer last_target_, successor_;
};

}  // namespace nimble
