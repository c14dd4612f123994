// KeySource: where a sampled key chunk finds the keys that it does not hold:
// in the rows' own columns.
#pragma once

#include "nimble/base/result.h"
#include "nimble/key/key_buffer.h"

namespace nimble {

// A place among ascending keys: the first key that is not below some target.
struct LowerBound {
  uint64_t row = 0;  // of the file
  bool is_equal = false;
};

// Keys that are searched for a target, which may be any bytes.
struct KeySearch {
  ByteSpan target;
  // So many bytes of it the keys of the rows in question begin with.
  size_t shared = 0;
};

// Rows are those of the file, and there. May wait for a read.
class KeySource {
 public:
  virtual ~KeySource() = default;
  // Looks in rows [begin, end), whose keys ascend; `end` where all of them are
  // below the target.
  virtual Result<LowerBound> find(uint64_t begin, uint64_t end,
                                  const KeySearch& search) const = 0;
  // Sign of the key of a row against `target`.
  virtual Result<int> compare(uint64_t row, ByteSpan target) const = 0;
  // Appends the keys of rows [begin, end).
  virtual Status read_keys(uint64_t begin, uint64_t end,
                           KeyBuffer* out) const = 0;
  // Tells the processor which bytes find() is about to need.
  virtual void prefetch(uint64_t begin, uint64_t end,
                        const KeySearch& search) const = 0;
};

}  // namespace nimble
