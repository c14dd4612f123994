// HashRows: pairs of hash and row, as a Batch of ExternalSorter. They are
// ordered by hash, then by row.
#pragma once

#include <span>
#include <vector>

#include "nimble/memory/byte_buffer.h"

namespace nimble {

struct HashRow {
  uint64_t hash;
  uint64_t row;
};

class HashRows {
 public:
  void push_back(HashRow pair) { pairs_.push_back(pair); }
  std::span<const HashRow> pairs() const { return pairs_; }

  size_t size() const { return pairs_.size(); }
  bool empty() const { return pairs_.empty(); }
  void clear() { pairs_.clear(); }
  // Estimated memory of a pair: twice its size, because the vector grows by
  // doubling, and once in the scratch memory for sorting.
  uint64_t memory_bytes() const { return pairs_.size() * 3 * sizeof(HashRow); }
  HashRows fresh() const { return {}; }
  // Sorts by digits of the hash. Fastest if rows of equal hashes are added in
  // ascending order.
  void sort();
  int compare(size_t i, const HashRows& other, size_t j) const {
    const HashRow a = pairs_[i], b = other.pairs_[j];
    if (a.hash != b.hash) return a.hash < b.hash ? -1 : 1;
    return a.row < b.row ? -1 : a.row > b.row;
  }
  void append(const HashRows& other, size_t begin, size_t end) {
    const HashRow* from = other.pairs_.data();
    pairs_.insert(pairs_.end(), from + begin, from + end);
  }
  void store(size_t begin, size_t end, ByteBuffer* out) const {
    out->put_bytes(pairs_.data() + begin, (end - begin) * sizeof(HashRow));
  }
  void load(ByteSpan block) {
    const size_t at = pairs_.size();
    pairs_.resize(at + block.size() / sizeof(HashRow));
    std::memcpy(pairs_.data() + at, block.data(), block.size());
  }

 private:
  std::vector<HashRow> pairs_;
  std::vector<HashRow> scratch_;
};

}  // namespace nimble
