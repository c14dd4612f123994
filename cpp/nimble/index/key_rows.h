// KeyRows: encoded keys and their rows, as a Batch of ExternalSorter in key
// order. Rows are added in ascending order, so equal keys keep ascending rows.
#pragma once

#include <numeric>
#include <vector>

#include "nimble/key/key_sort.h"
#include "nimble/key/key_spill.h"

namespace nimble {

class KeyRows {
 public:
  explicit KeyRows(size_t fixed_width = 0) : keys_(fixed_width) {}

  // Adds keys [begin, end), which belong to rows first_row and following.
  void add(const KeyBuffer& keys, size_t begin, size_t end,
           uint64_t first_row) {
    if (empty()) keys_.reset(keys.fixed_width());
    keys_.append(keys, begin, end);
    for (size_t i = begin; i < end; ++i) rows_.push_back(first_row + i - begin);
  }
  size_t fixed_width() const { return keys_.fixed_width(); }
  // The i-th key and row in sorted order.
  ByteSpan key(size_t i) const { return keys_.key(order_[i]); }
  uint64_t row(size_t i) const { return rows_[order_[i]]; }

  size_t size() const { return rows_.size(); }
  bool empty() const { return rows_.empty(); }
  void clear() {
    keys_.clear();
    rows_.clear();
    order_.clear();
  }
  // Estimated memory. Buffers grow by doubling. Per key, sorting takes two
  // items of 16 bytes and an entry of order_.
  uint64_t memory_bytes() const {
    const uint64_t each = keys_.fixed_width() == 0 ? 72 : 56;
    return 2 * keys_.num_bytes() + size() * each;
  }
  KeyRows fresh() const { return KeyRows(keys_.fixed_width()); }
  void sort() { sort_keys(keys_, &order_); }
  int compare(size_t i, const KeyRows& other, size_t j) const {
    return compare_bytes(key(i), other.key(j));
  }
  void append(const KeyRows& other, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      keys_.push_back(other.key(i));
      rows_.push_back(other.row(i));
    }
  }
  void store(size_t begin, size_t end, ByteBuffer* out) const {
    store_keys(keys_, order_.data() + begin, end - begin, out);
    for (size_t i = begin; i < end; ++i) out->put<uint64_t>(row(i));
  }
  void load(ByteSpan block) {
    ByteReader in(block);
    load_keys(&in, &keys_);
    while (in.remaining() > 0) rows_.push_back(in.get<uint64_t>());
    order_.resize(size());
    std::iota(order_.begin(), order_.end(), uint64_t{0});
  }

 private:
  KeyBuffer keys_;
  std::vector<uint64_t> rows_;
  std::vector<uint64_t> order_;  // valid after sort()
};

}  // namespace nimble
