// ColumnKeys: reads the keys that sampled chunks do not store from the key
// columns, for one search or one batch. Not thread-safe.
#pragma once

#include <span>

#include "nimble/base/row_range.h"
#include "nimble/cursor/cluster_index.h"
#include "nimble/key_chunk/key_source.h"

namespace nimble {

class ColumnKeys final : public KeySource {
 public:
  // Borrows both. `wanted` has the columns that the caller will read from the
  // row found, or is null. If key columns have to be read, the wanted columns
  // are read in the same round.
  explicit ColumnKeys(const ClusterIndex& index,
                      const RowReader* wanted = nullptr)
      : index_(index), wanted_(wanted) {}

  // Returns the argument for KeyChunk::open(). It is null if the file stores
  // all keys in chunks.
  Result<const KeySource*> source();

  // Reads the bytes that searches of these rows need, in one round per stripe.
  // For files that are not mapped.
  // REQUIRES: ranges are ascending and disjoint. source() was called and is not
  // null.
  Status fetch(std::span<const RowRange> ranges) const;
  // Returns the rows that a search in [begin, end) needs.
  RowRange answer_rows(uint64_t begin, uint64_t end) const;

  Result<LowerBound> find(uint64_t begin, uint64_t end,
                          const KeySearch& search) const override;
  Result<int> compare(uint64_t row, ByteSpan target) const override;
  Status read_keys(uint64_t begin, uint64_t end, KeyBuffer* out) const override;
  void prefetch(uint64_t begin, uint64_t end,
                const KeySearch& search) const override;

 private:
  Status fetch_answer(uint64_t begin, uint64_t end) const;

  const ClusterIndex& index_;
  const RowReader* wanted_;
  const RowKeys* keys_ = nullptr;
};

}  // namespace nimble
