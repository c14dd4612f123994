#include "nimble/write/sorted_rows.h"

#include <algorithm>
#include <numeric>

#include "nimble/column/column_spill.h"
#include "nimble/key/key_sort.h"
#include "nimble/key/key_spill.h"
#include "nimble/memory/chunk_memory.h"

namespace nimble {

void SortedRows::clear() {
  rows_.clear();
  keys_.clear();
  order_.clear();
}

void SortedRows::reserve_keys(uint64_t memory_bytes) {
  constexpr uint64_t kTelling = uint64_t{1} << 20;
  const uint64_t bytes = keys_.num_bytes();
  if (!only_keys_ || bytes < kTelling || bytes <= reserved_) return;
  // Reserving must not fail if the rows to come turn out to be few.
  memory_bytes = std::min<uint64_t>(memory_bytes, available_bytes() / 4);
  const uint64_t each = div_ceil(bytes, size());
  const uint64_t most = memory_bytes / (each + 48);  // see memory_bytes()
  if (most <= size()) return;
  reserved_ = most * each;
  keys_.reserve(reserved_, most);
}

void SortedRows::sort() { sort_keys(keys_, &order_); }

void SortedRows::append(const SortedRows& other, size_t begin, size_t end) {
  if (begin == end) return;
  if (empty()) keys_.reset(other.keys_.fixed_width());
  const uint64_t* const rows = other.order_.data() + begin;
  if (!only_keys_) rows_.append_rows(other.rows_, rows, end - begin);
  keys_.append_rows(other.keys_, rows, end - begin);
}

void SortedRows::store(size_t begin, size_t end, ByteBuffer* out) const {
  store_keys(keys_, order_.data() + begin, end - begin, out);
  if (only_keys_) return;
  Column block(*schema_, /*wide=*/true);
  block.append_rows(rows_, order_.data() + begin, end - begin);
  store_column(block, out);
}

void SortedRows::load(ByteSpan block) {
  ByteReader in(block);
  const bool first = empty();
  load_keys(&in, &keys_);
  order_.resize(size());
  std::iota(order_.begin(), order_.end(), uint64_t{0});
  if (only_keys_) return;
  if (first) return load_column(&in, &rows_);
  Column loaded(*schema_, /*wide=*/true);
  load_column(&in, &loaded);
  rows_.append_rows(loaded, order_.data(), loaded.length());
}

}  // namespace nimble
