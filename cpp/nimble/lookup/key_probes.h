// KeyProbes: encoded keys that are looked for, sorted, freed of repeats and
// hashed once for however many files are asked.
#pragma once

#include <span>
#include <vector>

#include "nimble/base/row_range.h"
#include "nimble/key/key_buffer.h"

namespace nimble {

// Some of the keys of a buffer: ascending, none twice.
struct ProbeSpan {
  const KeyBuffer* keys = nullptr;
  std::span<const uint64_t> numbers;  // which of `keys`
  std::span<const uint64_t> hashes;   // key_hash64() of each
};

// Rows that have key `number`.
struct FoundRange {
  uint64_t number = 0;
  RowRange rows;
};

class KeyProbes {
 public:
  // Borrows the keys: of one encoder, whole keys or prefixes of keys.
  explicit KeyProbes(const KeyBuffer& keys);

  const KeyBuffer& keys() const { return keys_; }
  // The different keys in ascending order; parts of them are half-open.
  size_t num_distinct() const { return numbers_.size(); }
  ProbeSpan part(size_t begin, size_t end) const;
  // Those that a file may have whose keys all lie between two bounds, both
  // included.
  ProbeSpan between(ByteSpan lower, ByteSpan upper) const;
  // Where key i is among the different ones.
  uint64_t rank(size_t i) const { return ranks_[i]; }

 private:
  const KeyBuffer& keys_;
  std::vector<uint64_t> numbers_, hashes_, ranks_;
};

}  // namespace nimble
