// KeyEncoder: rows to byte-comparable keys: memcmp order of the keys is the
// order of the tuples under the columns' sort orders. docs/format/keys.md.
#pragma once

#include <span>
#include <string_view>

#include "nimble/key/key_buffer.h"
#include "nimble/key/key_column.h"
#include "nimble/key/key_scalar.h"
#include "nimble/types/array_view.h"

namespace nimble {

class KeyEncoder {
 public:
  // `root_struct` is the schema: a struct whose descendants the paths name.
  static Result<KeyEncoder> create(const Field& root_struct,
                                   const std::vector<KeyColumnSpec>& columns);

  const std::vector<KeyColumn>& columns() const { return columns_; }
  // Bytes of every key, or 0 where keys differ in length.
  size_t fixed_width() const { return fixed_width_; }
  // The encoder of the first k columns (1 <= k <= all): its keys are prefixes
  // of this one's.
  KeyEncoder leading(size_t k) const;

  // Appends the keys of rows [begin, begin + count) of `root`. An empty `out`
  // takes this encoder's layout; after a failure its contents are undefined.
  Status encode(const ArrayView& root, int64_t begin, int64_t count,
                KeyBuffer* out) const;

  // One value or the values of the first columns, appended.
  Status encode_scalar(size_t column, const KeyScalar& value,
                       ByteBuffer* out) const;
  Status encode_tuple(std::span<const KeyScalar> values, ByteBuffer* out) const;

  // Whole keys of one integer or one text column without any allocation, for
  // single lookups. They return the key's size; 0 where the key is not such a
  // column or the value is out of the column's range.
  static constexpr size_t kMaxIntKey = 9;
  size_t encode_int_key(int64_t value, uint8_t* out) const;
  static constexpr size_t max_text_key(size_t size) { return 2 * size + 2; }
  size_t encode_text_key(std::string_view value, uint8_t* out) const;

 private:
  std::vector<KeyColumn> columns_;
  size_t fixed_width_ = 0;
  size_t fixed_bytes_ = 0;  // of a key, without values of kBytes columns
};

}  // namespace nimble
