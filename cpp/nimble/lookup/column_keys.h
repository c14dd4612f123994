// ColumnKeys: the keys that sampled chunks of the cluster index leave to the
// key columns, for one search or batch of searches.
#pragma once

#include <span>

#include "nimble/base/row_range.h"
#include "nimble/index/key_source.h"
#include "nimble/lookup/cluster_index.h"

namespace nimble {

class ColumnKeys final : public KeySource {
 public:
  // Borrows both. Where bytes have to be read, those of the columns of
  // `wanted` come in the same round: the caller is about to read the row that
  // is found. Null: nothing else is wanted.
  explicit ColumnKeys(const ClusterIndex& index,
                      const RowReader* wanted = nullptr)
      : index_(index), wanted_(wanted) {}

  // What KeyChunk::open() takes: null in a file that holds all keys in chunks.
  Result<const KeySource*> source();

  // Reads what searches of these rows (ascending, disjoint ranges) need, in
  // one round a stripe. For files that are not mapped.
  Status fetch(std::span<const RowRange> ranges) const;
  // What that is for a search in rows [begin, end).
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
