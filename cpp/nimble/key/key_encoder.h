// KeyEncoder: converts rows to keys whose order by memcmp is the order of the
// rows by the sort orders of the columns. Thread-safe. docs/format/keys.md.
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
  // `root_struct` is the schema, a struct. Paths of columns begin there.
  static Result<KeyEncoder> create(const Field& root_struct,
                                   const std::vector<KeyColumnSpec>& columns);

  const std::vector<KeyColumn>& columns() const { return columns_; }
  // The size of every key in bytes, or 0 if sizes differ.
  size_t fixed_width() const { return fixed_width_; }
  // The encoder of the first k columns. Its keys are prefixes of this encoder's
  // keys.
  // REQUIRES: 1 <= k <= columns().size().
  KeyEncoder leading(size_t k) const;

  // Appends the keys of rows [begin, begin + count) of `root`. An empty `out`
  // gets this encoder's layout. After a failure, the contents of `out` are
  // undefined.
  Status encode(const ArrayView& root, int64_t begin, int64_t count,
                KeyBuffer* out) const;

  // Appends one value, or the values of the first columns.
  Status encode_scalar(size_t column, const KeyScalar& value,
                       ByteBuffer* out) const;
  Status encode_tuple(std::span<const KeyScalar> values, ByteBuffer* out) const;

  // Encodes the whole key of an index with a single integer or text column,
  // without allocation, for single lookups. Returns the key's size, or 0 if the
  // key has other columns or the value is out of the column's range.
  // REQUIRES: `out` has room for kMaxIntKey or max_text_key() bytes.
  static constexpr size_t kMaxIntKey = 9;
  size_t encode_int_key(int64_t value, uint8_t* out) const;
  static constexpr size_t max_text_key(size_t size) { return 2 * size + 2; }
  size_t encode_text_key(std::string_view value, uint8_t* out) const;

 private:
  std::vector<KeyColumn> columns_;
  size_t fixed_width_ = 0;
  size_t fixed_bytes_ = 0;  // per key, without values of kBytes columns
};

}  // namespace nimble
