// ClusterCursor: encoded keys to file rows through the cluster index.
#pragma once

#include <optional>

#include "nimble/lookup/key_cursor.h"

namespace nimble {

// The cluster index as chunks of keys. Places are file rows.
class ClusterOrder final : public KeyOrder {
 public:
  explicit ClusterOrder(const OpenFile& file) : file_(file) {}
  const OpenFile& file() const override { return file_; }
  uint64_t num_keys() const override { return file_.num_rows(); }
  const ChunkDirectory& groups() const override {
    return file_.group_boundaries();
  }
  size_t group_at(uint64_t row) const override { return file_.group_of(row); }
  Result<KeyGroupHandle> group(size_t i) const override;

 private:
  const OpenFile& file_;
};

// The group and chunk found last stay open. Not thread-safe; create one per
// thread or per batch.
class ClusterCursor {
 public:
  // Borrows both. `wanted` are columns that the caller is about to read of the
  // rows it finds: where sampled keys cost a round of reads, they come with it.
  explicit ClusterCursor(const ClusterIndex& index,
                         const RowReader* wanted = nullptr)
      : index_(index),
        order_(index.file()),
        columns_(index, wanted),
        keys_(order_, &columns_) {}

  Result<RowRange> find_range(const KeyRange& range) {
    return keys_.find_range(range);
  }
  // The first row with a whole key, which the Bloom filter may rule out at
  // once.
  Result<std::optional<uint64_t>> find_first(ByteSpan key);
  // Where the rows end whose keys begin with `prefix`.
  Result<uint64_t> end_of(ByteSpan prefix) { return keys_.end_of(prefix); }
  // Replaces *key by the key that the index has of a file row; false where it
  // leaves it to the columns.
  Result<bool> stored_key_at(uint64_t row, ByteBuffer* key);
  // Which rows' keys a search for `target` looks at in their columns.
  Result<RowRange> rows_to_read(ByteSpan target);
  // Reads the key columns of such rows (ascending, disjoint) in few rounds.
  Status fetch(std::span<const RowRange> rows) { return columns_.fetch(rows); }

 private:
  const ClusterIndex& index_;
  ClusterOrder order_;
  ColumnKeys columns_;
  KeyCursor keys_;
};

}  // namespace nimble
