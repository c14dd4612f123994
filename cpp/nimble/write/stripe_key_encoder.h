// StripeKeyEncoder: encodes the keys of a stripe that is being written. Lends
// the key's columns to a KeyEncoder as Arrow rows, without a copy.
#pragma once

#include <vector>

#include "nimble/column/column.h"
#include "nimble/format/footer.h"
#include "nimble/key/key_encoder.h"

namespace nimble {

class StripeKeyEncoder {
 public:
  // Fails for columns that cannot be part of a key, with path and type.
  static Result<StripeKeyEncoder> create(
      const Field& schema, const std::vector<KeyColumnSpec>& columns);

  const KeyEncoder& encoder() const { return encoder_; }
  // Appends the keys of rows [begin, begin + count).
  // REQUIRES: `root` is a column of the schema whose byte strings have wide
  // offsets.
  Status encode(const Column& root, uint64_t begin, uint64_t count,
                KeyBuffer* out) const;

 private:
  StripeKeyEncoder(Field root, std::vector<size_t> tops, KeyEncoder encoder)
      : root_(std::move(root)),
        tops_(std::move(tops)),
        encoder_(std::move(encoder)) {}

  // Only the key's top-level columns; byte strings have 64-bit offsets.
  Field root_;
  std::vector<size_t> tops_;
  KeyEncoder encoder_;
};

}  // namespace nimble
