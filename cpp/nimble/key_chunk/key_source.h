// KeySource: provides the keys that a sampled key chunk does not store. They
// are computed from the rows' key columns.
#pragma once

#include "nimble/base/result.h"
#include "nimble/key/key_buffer.h"

namespace nimble {

// A position in ascending keys: the first key >= a target.
struct LowerBound {
  uint64_t row = 0;  // file row
  bool is_equal = false;
};

// A search among keys. The target may be any bytes.
struct KeySearch {
  ByteSpan target;
  // All keys that are searched begin with the first `shared` bytes of the
  // target.
  size_t shared = 0;
};

// May block on a read.
// REQUIRES: all rows passed to these functions are existing file rows.
class KeySource {
 public:
  virtual ~KeySource() = default;
  // Searches rows [begin, end). Returns `end` if all keys are below the target.
  // REQUIRES: the keys of these rows ascend.
  virtual Result<LowerBound> find(uint64_t begin, uint64_t end,
                                  const KeySearch& search) const = 0;
  // Compares the key of a row with `target`. Returns a negative number, 0 or a
  // positive number.
  virtual Result<int> compare(uint64_t row, ByteSpan target) const = 0;
  // Appends the keys of rows [begin, end).
  virtual Status read_keys(uint64_t begin, uint64_t end,
                           KeyBuffer* out) const = 0;
  // Prefetches the bytes that find() accesses first.
  virtual void prefetch(uint64_t begin, uint64_t end,
                        const KeySearch& search) const = 0;
};

}  // namespace nimble
