// KeySource: provides the keys that a sampled key chunk does not store. They
// are computed from the rows' key columns.
#pragma once

#include "nimble/base/result.h"
#include "nimble/key/key_buffer.h"

namespace nimble {

// A position among ascending keys: the first key >= a target.
struct LowerBound {
  uint64_t row = 0;  // file row
  bool is_equal = false;
};

// A search among keys. The target may be any bytes.
struct KeySearch {
  ByteSpan target;
  // The keys of the rows in question all begin with this many bytes of the
  // target.
  size_t shared = 0;
};

// May block on a read.
// REQUIRES: rows are file rows and exist.
class KeySource {
 public:
  virtual ~KeySource() = default;
  // Searches rows [begin, end). Returns `end` if all keys are below the target.
  // REQUIRES: the keys of these rows ascend.
  virtual Result<LowerBound> find(uint64_t begin, uint64_t end,
                                  const KeySearch& search) const = 0;
  // Compares the key of a row with `target`. Returns the sign.
  virtual Result<int> compare(uint64_t row, ByteSpan target) const = 0;
  // Appends the keys of rows [begin, end).
  virtual Status read_keys(uint64_t begin, uint64_t end,
                           KeyBuffer* out) const = 0;
  // Prefetches the bytes that find() accesses first.
  virtual void prefetch(uint64_t begin, uint64_t end,
                        const KeySearch& search) const = 0;
};

}  // namespace nimble
