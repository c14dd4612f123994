// SortedRows: rows of a file with their encoded keys, as a Batch of
// ExternalSorter in key order. If rows can be restored from their keys
// (key_restorer.h), a batch has only keys.
#pragma once

#include <vector>

#include "nimble/column/column.h"
#include "nimble/key/key_buffer.h"

namespace nimble {

class SortedRows {
 public:
  SortedRows(const Field& schema, bool only_keys)
      : schema_(&schema), only_keys_(only_keys), rows_(schema, /*wide=*/true) {}

  bool only_keys() const { return only_keys_; }
  // Rows must be added to both rows() and keys(), unless only_keys().
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
  // Reserves memory for the keys that fit in a budget, if their size is known
  // by now. Growing by doubling would copy them to new pages several times.
  void reserve_keys(uint64_t memory_bytes);
  // Estimated memory. Buffers that are not reserved grow by doubling. Per key,
  // sorting takes two items of 16 bytes and an entry of order_.
  uint64_t memory_bytes() const {
    if (keys_.num_bytes() <= reserved_) return keys_.num_bytes() + size() * 48;
    return 2 * (rows_.data_bytes() + keys_.num_bytes()) + size() * 56;
  }
  SortedRows fresh() const { return {*schema_, only_keys_}; }
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
  bool only_keys_;
  uint64_t reserved_ = 0;  // bytes of keys, if only_keys_
  Column rows_;
  KeyBuffer keys_;
  std::vector<uint64_t> order_;
};

}  // namespace nimble
