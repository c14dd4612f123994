// ClusterCursor: finds the file rows of encoded keys in the cluster index.
#pragma once

#include <optional>

#include "nimble/cursor/key_cursor.h"

namespace nimble {

// The cluster index as a KeyOrder. Its places are file rows. Borrows the file.
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

// Keeps the last group and chunk that it opened. May block on reads. Not
// thread-safe: create one per thread or per batch.
class ClusterCursor {
 public:
  // Borrows both. `wanted` has the columns that the caller will read from the
  // rows found. If a search in sampled keys has to read the file, these columns
  // are read in the same round.
  explicit ClusterCursor(const ClusterIndex& index,
                         const RowReader* wanted = nullptr)
      : index_(index),
        order_(index.file()),
        columns_(index, wanted),
        keys_(order_, &columns_) {}

  Result<RowRange> find_range(const KeyRange& range) {
    return keys_.find_range(range);
  }
  // Returns the first row with a whole key. The Bloom filter may exclude the
  // key without a search.
  Result<std::optional<uint64_t>> find_first(ByteSpan key);
  // Returns the end of the rows whose keys begin with `prefix`.
  Result<uint64_t> end_of(ByteSpan prefix) { return keys_.end_of(prefix); }
  // Replaces *key by the stored key of a file row. Returns false if the index
  // does not store this key, because sampled chunks leave most keys to the
  // columns.
  Result<bool> stored_key_at(uint64_t row, ByteBuffer* key);
  // Returns the rows whose key columns a search for `target` would read.
  Result<RowRange> rows_to_read(ByteSpan target);
  // Reads the key columns of `rows` in few rounds.
  // REQUIRES: ranges are ascending and disjoint.
  Status fetch(std::span<const RowRange> rows) { return columns_.fetch(rows); }

 private:
  const ClusterIndex& index_;
  ClusterOrder order_;
  ColumnKeys columns_;
  KeyCursor keys_;
};

}  // namespace nimble
