// SortedRows: rows of a file with their encoded keys, as a Batch of
// ExternalSorter in key order.
#pragma once

#include <vector>

#include "nimble/column/column.h"
#include "nimble/key/key_buffer.h"

namespace nimble {

class SortedRows {
 public:
  explicit SortedRows(const Field& schema)
      : schema_(&schema), rows_(schema, /*wide=*/true) {}

  // Rows must be added to both rows() and keys().
  Column* rows() { return &rows_; }
  KeyBuffer* keys() { return &keys_; }
  const Column& rows() const { return rows_; }
  const KeyBuffer& keys() const { return keys_; }
  // The rows in key order.
  // REQUIRES: sort() was called.
  const std::vector<uint64_t>& order() const { return order_; }

  size_t size() const { return keys_.size(); }
  bool empty() const { return keys_.empty(); }
  void clear();
  // Estimated memory. Buffers grow by doubling. Per key, sorting takes two
  // items of 16 bytes and an entry of order_.
  uint64_t memory_bytes() const {
    return 2 * (rows_.data_bytes() + keys_.num_bytes()) + size() * 56;
  }
  SortedRows fresh() const { return SortedRows(*schema_); }
  void sort();
  int compare(size_t i, const SortedRows& other, size_t j) const {
    return compare_bytes(keys_.key(order_[i]),
                         other.keys_.key(other.order_[j]));
  }
  void append(const SortedRows& other, size_t begin, size_t end);
  void store(size_t begin, size_t end, ByteBuffer* out) const;
  void load(ByteSpan block);

 private:
  const Field* schema_;
  Column rows_;
  KeyBuffer keys_;
  std::vector<uint64_t> order_;
};

}  // namespace nimble
