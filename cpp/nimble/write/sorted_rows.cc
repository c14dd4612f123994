#include "nimble/write/sorted_rows.h"

#include <numeric>

#include "nimble/column/column_spill.h"
#include "nimble/key/key_sort.h"
#include "nimble/key/key_spill.h"

namespace nimble {

void SortedRows::clear() {
  rows_.clear();
  keys_.clear();
  order_.clear();
}

void SortedRows::sort() { sort_keys(keys_, &order_); }

void SortedRows::append(const SortedRows& other, size_t begin, size_t end) {
  if (begin == end) return;
  if (empty()) keys_.reset(other.keys_.fixed_width());
  rows_.append_rows(other.rows_, other.order_.data() + begin, end - begin);
  for (size_t i = begin; i < end; ++i) {
    keys_.push_back(other.keys_.key(other.order_[i]));
  }
}

void SortedRows::store(size_t begin, size_t end, ByteBuffer* out) const {
  Column block(*schema_, /*wide=*/true);
  block.append_rows(rows_, order_.data() + begin, end - begin);
  store_keys(keys_, order_.data() + begin, end - begin, out);
  store_column(block, out);
}

void SortedRows::load(ByteSpan block) {
  ByteReader in(block);
  const bool first = empty();
  load_keys(&in, &keys_);
  order_.resize(size());
  std::iota(order_.begin(), order_.end(), uint64_t{0});
  if (first) return load_column(&in, &rows_);
  Column loaded(*schema_, /*wide=*/true);
  load_column(&in, &loaded);
  rows_.append_rows(loaded, order_.data(), loaded.length());
}

}  // namespace nimble
