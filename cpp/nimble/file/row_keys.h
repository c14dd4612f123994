// RowKeys: the encoded keys of given rows, made from the rows' own columns.
// Settles what an index without keys only suspects.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "nimble/file/row_reader.h"

namespace nimble {

class RowKeys {
 public:
  // Borrows the file.
  static Result<std::unique_ptr<const RowKeys>> create(
      const FileReader& file, const std::vector<KeyColumnRef>& columns);

  // Replaces *out by the key of each row. Cost: the rows' blocks of the key
  // columns, in one round of reads where they are not in memory.
  Status read(std::span<const uint64_t> rows, KeyBuffer* out) const;
  // Is this the key of a row? One integer or text column of a mapped file is
  // decoded without Arrow, which is what a single lookup mostly needs.
  Result<bool> is_key(uint64_t row, ByteSpan key) const;

 private:
  RowKeys(std::shared_ptr<const RowReader> rows, KeyEncoder encoder)
      : rows_(std::move(rows)), encoder_(std::move(encoder)) {}

  // Writes the key of a row to `out`, of kSmallKey bytes, and gives its size; 0
  // where it has to be made the long way.
  static constexpr size_t kSmallKey = 512;
  Result<size_t> direct_key(uint64_t row, uint8_t* out) const;

  std::shared_ptr<const RowReader> rows_;
  KeyEncoder encoder_;  // of what rows_ gives
  bool direct_ = false;
};

}  // namespace nimble
