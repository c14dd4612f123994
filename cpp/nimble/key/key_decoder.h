// KeyDecoder: keys back to values. Exact but for -0.0 (comes back as +0.0)
// and NaN (comes back as the one canonical NaN). Checks every byte: keys come
// from files.
#pragma once

#include <string>

#include "nimble/key/key_encoder.h"

namespace nimble {

// The values of one key column, in rows.
struct DecodedColumn {
  std::vector<uint8_t> validity;  // 1 or 0 a row
  // Fixed-width values, little-endian, nulls as zeros: width bytes a row;
  // bools one byte, 0 or 1. Byte strings back to back.
  std::vector<uint8_t> values;
  std::vector<uint64_t> ends;  // of byte strings, one a row

  size_t size() const { return validity.size(); }
  ByteSpan value(const KeyColumn& column, size_t row) const;
};

class KeyDecoder {
 public:
  explicit KeyDecoder(std::vector<KeyColumn> columns)
      : columns_(std::move(columns)) {}
  explicit KeyDecoder(const KeyEncoder& encoder)
      : KeyDecoder(encoder.columns()) {}

  const std::vector<KeyColumn>& columns() const { return columns_; }

  // Appends a row to each column of *out, which is sized where it is empty.
  // After a failure (kCorrupt) the columns of *out may differ in length.
  Status decode(ByteSpan key, std::vector<DecodedColumn>* out) const;
  Status decode(const KeyBuffer& keys, size_t begin, size_t end,
                std::vector<DecodedColumn>* out) const;

  // For messages: "7", "('abc', null)"; hex where the key is malformed.
  std::string to_text(ByteSpan key) const;

 private:
  std::vector<KeyColumn> columns_;
};

// Bytes as lower-case hex, cut after 64.
std::string to_hex(ByteSpan bytes);

}  // namespace nimble
