// KeySource: where a sampled key chunk finds the keys that it does not hold.
#pragma once

#include "nimble/base/status.h"
#include "nimble/key/key_buffer.h"

namespace nimble {

class KeySource {
 public:
  virtual ~KeySource() = default;
  // Appends the keys of file rows [begin, end). The calling thread keeps the
  // file's groups pinned.
  virtual Status read_keys(uint64_t begin, uint64_t end,
                           KeyBuffer* out) const = 0;
};

}  // namespace nimble
