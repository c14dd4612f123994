// KeyProbes: keys to search for, sorted, deduplicated and hashed once for any
// number of files.
#pragma once

#include <span>
#include <vector>

#include "nimble/base/row_range.h"
#include "nimble/key/key_buffer.h"

namespace nimble {

// A selection of keys of a buffer, ascending and distinct. Borrows its members.
struct ProbeSpan {
  const KeyBuffer* keys = nullptr;
  std::span<const uint64_t> numbers;  // indexes into `keys`
  std::span<const uint64_t> hashes;   // key_hash64() of each key
};

// Rows that have key `number`, an index into ProbeSpan::keys.
struct FoundRange {
  uint64_t number = 0;
  RowRange rows;
};

class KeyProbes {
 public:
  // Borrows the keys.
  // REQUIRES: the same encoder made all keys. All are whole keys, or all are
  // prefixes.
  explicit KeyProbes(const KeyBuffer& keys);

  const KeyBuffer& keys() const { return keys_; }
  // The number of distinct keys. part() returns the distinct keys [begin, end),
  // in ascending order.
  size_t num_distinct() const { return numbers_.size(); }
  ProbeSpan part(size_t begin, size_t end) const;
  // The keys that may be in a file whose keys are in [lower, upper].
  ProbeSpan between(ByteSpan lower, ByteSpan upper) const;
  // The rank of key i among the distinct keys.
  uint64_t rank(size_t i) const { return ranks_[i]; }

 private:
  const KeyBuffer& keys_;
  std::vector<uint64_t> numbers_, hashes_, ranks_;
};

}  // namespace nimble
