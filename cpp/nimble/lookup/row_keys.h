// RowKeys: the encoded keys of given rows, made from the rows' own columns.
// Settles what an index without keys only suspects, and finds keys that a
// sampled index leaves out.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "nimble/index/key_source.h"
#include "nimble/stripe/row_reader.h"
#include "nimble/stripe/value_reader.h"

namespace nimble {

class RowKeys {
 public:
  // Borrows the file.
  static Result<std::unique_ptr<const RowKeys>> create(
      const OpenFile& file, const std::vector<KeyColumnSpec>& columns);

  // The key columns, for reading them ahead.
  const RowReader& rows() const { return *rows_; }

  // Replaces *out by the key of each row. Cost: the rows' blocks of the key
  // columns, in one round of reads where they are not in memory.
  Status read(std::span<const uint64_t> rows, KeyBuffer* out) const;
  // Appends the keys of a range of rows to an empty `out`, or one that this
  // has appended to.
  Status read_range(RowRange rows, KeyBuffer* out) const;

  // Sign of the key of a row against `target`, which may be any bytes. Plain
  // columns of a mapped file are decoded without Arrow, which is what a single
  // lookup mostly needs.
  Result<int> compare(uint64_t row, ByteSpan target) const;
  // The first of rows [begin, end), whose keys ascend, that is not below
  // `target`.
  Result<LowerBound> find(uint64_t begin, uint64_t end, ByteSpan target) const;
  // Asks for the bytes that find() looks at first.
  void prefetch(uint64_t begin, uint64_t end) const;

 private:
  // A key column of a mapped file that is read value by value.
  struct Part {
    FlatColumn column;
    Field field;
  };

  RowKeys(std::shared_ptr<const RowReader> rows, KeyEncoder encoder)
      : rows_(std::move(rows)), encoder_(std::move(encoder)) {}

  void open_parts(const std::vector<KeyColumnSpec>& specs);
  Result<int> compare_at(const RowLocation& at, ByteSpan target) const;
  Status append_part(const RowLocation& at, size_t part, ByteBuffer* key) const;
  // Appends the keys of rows that rows_ has read.
  Status append_keys(Column&& read, KeyBuffer* out) const;

  std::shared_ptr<const RowReader> rows_;
  KeyEncoder encoder_;       // of what rows_ gives
  std::vector<Part> parts_;  // empty: keys are made the long way
};

}  // namespace nimble
