// KeyCursor: finds places in the ascending keys of an index, the cluster index
// or a sorted one. One bound is at most one group and one key chunk that no
// cache holds.
#pragma once

#include "nimble/base/row_range.h"
#include "nimble/io/slot_cache.h"
#include "nimble/key/key_bounds.h"
#include "nimble/lookup/column_keys.h"
#include "nimble/lookup/key_chunk_loader.h"

namespace nimble {

// A group of an index in memory, as long as the handle lives.
using KeyGroupHandle = SlotHandle<KeyChunkGroup>;

// The keys of an index as they are stored: chunks of groups, all ascending.
class KeyOrder {
 public:
  virtual ~KeyOrder() = default;
  virtual const OpenFile& file() const = 0;
  virtual uint64_t num_keys() const = 0;
  // The last key of each group, or a key between it and the next group.
  virtual const ChunkDirectory& groups() const = 0;
  // The number of the group that has the key at a place < num_keys().
  virtual size_t group_at(uint64_t place) const = 0;
  // Group i, which may wait for a read.
  virtual Result<KeyGroupHandle> group(size_t i) const = 0;
};

// A group whose last key lies below its boundary.
Status ends_before_boundary(const OpenFile& file, size_t group);

// The group and chunk found last stay open. Not thread-safe; create one per
// thread or per batch.
class KeyCursor {
 public:
  // Borrows both. `columns` has the keys that sampled chunks leave out; null:
  // none are left out.
  explicit KeyCursor(const KeyOrder& order, ColumnKeys* columns = nullptr)
      : order_(order), columns_(columns) {}

  // The first place whose key is >= target; num_keys() where there is none.
  // Cheapest for ascending targets.
  Result<uint64_t> lower_bound(ByteSpan target);
  // The places of keys that begin with `prefix`: a whole key, or its first
  // columns.
  Result<RowRange> find_prefix(ByteSpan prefix);
  Result<RowRange> find_range(const KeyRange& range);
  // Where the keys end that begin with `prefix`.
  Result<uint64_t> end_of(ByteSpan prefix);

  // Opens the chunk that may hold `target`; false: it is after all keys.
  Result<bool> open_chunk_of(ByteSpan target);
  // Opens the chunk that has the key at a place.
  Status open_chunk_at(uint64_t place);
  // Is the key at this place in the open chunk?
  bool is_open(uint64_t place) const {
    return is_open_ && place >= chunk_.first &&
           place - chunk_.first < chunk_.chunk->num_keys();
  }
  // The open chunk, the place of its first key, and its boundary.
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
  uint32_t last_ = 0;  // the answer of the last search in the chunk
  ByteBuffer last_target_, successor_;
};

}  // namespace nimble
