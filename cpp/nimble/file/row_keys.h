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

 private:
  RowKeys(std::shared_ptr<const RowReader> rows, KeyEncoder encoder)
      : rows_(std::move(rows)), encoder_(std::move(encoder)) {}

  std::shared_ptr<const RowReader> rows_;
  KeyEncoder encoder_;  // of what rows_ gives
};

}  // namespace nimble
