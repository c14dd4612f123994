// KeyDecoder: converts keys back to values. This is exact, except that -0.0
// becomes +0.0, and NaNs become one canonical NaN. Every byte is validated,
// because keys are read from files. Thread-safe.
#pragma once

#include <string>

#include "nimble/key/key_encoder.h"

namespace nimble {

// The values of one key column, one per row.
struct DecodedColumn {
  std::vector<uint8_t> validity;  // 1 or 0 per row
  // Fixed-width values: little-endian, `width` bytes per row, zeros for nulls.
  // A bool is one byte, 0 or 1. Byte strings: one after the other, without
  // gaps.
  std::vector<uint8_t> values;
  std::vector<uint64_t> ends;  // of byte strings, one per row

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

  // Appends a row to each column of *out. An empty *out is resized first. After
  // a failure (kCorrupt), the columns of *out may have different lengths.
  Status decode(ByteSpan key, std::vector<DecodedColumn>* out) const;
  Status decode(const KeyBuffer& keys, size_t begin, size_t end,
                std::vector<DecodedColumn>* out) const;

  // Formats a key for messages: "7", "('abc', null)". Malformed keys are shown
  // in hex.
  std::string to_text(ByteSpan key) const;

 private:
  std::vector<KeyColumn> columns_;
};

// Decodes the value of a fixed-width column, which follows the null marker, to
// `column.width` bytes at `out`. Fails if it is malformed.
// REQUIRES: the key continues for `column.width` bytes, and is not null.
Status decode_fixed(const KeyColumn& column, const uint8_t* key, uint8_t* out);

// Formats bytes as lower-case hex, truncated after 64 bytes.
std::string to_hex(ByteSpan bytes);

}  // namespace nimble
