// KeyRestorer: converts encoded keys back to rows. If all columns of a file are
// in its key, sorting needs only the keys. Immutable, thread-safe.
#pragma once

#include <optional>
#include <vector>

#include "nimble/column/column.h"
#include "nimble/key/key_encoder.h"

namespace nimble {

class KeyRestorer {
 public:
  // Returns nullopt unless keys determine rows exactly. They do not if a column
  // is missing, nested or dictionary-encoded, or has floats, because a key does
  // not contain the sign of zero and the bits of a NaN.
  static std::optional<KeyRestorer> create(const Field& schema,
                                           const KeyEncoder& encoder);

  // Appends the rows of keys [begin, end) to `root`. Fails with kCorrupt if a
  // key is malformed. `root` is then unusable.
  // REQUIRES: `root` is a wide column of the schema.
  Status append(const KeyBuffer& keys, size_t begin, size_t end,
                Column* root) const;

 private:
  KeyRestorer() = default;

  std::vector<KeyColumn> columns_;
};

}  // namespace nimble
