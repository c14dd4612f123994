// RowKeys: computes the encoded keys of given rows from their columns. Used to
// compare candidates of indexes that do not store keys, and to find keys that
// sampled chunks do not store. Thread-safe. May block on reads.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "nimble/key_chunk/key_source.h"
#include "nimble/stripe/row_reader.h"
#include "nimble/stripe/value_reader.h"

namespace nimble {

class RowKeys {
 public:
  // Borrows the file.
  static Result<std::unique_ptr<const RowKeys>> create(
      const OpenFile& file, const std::vector<KeyColumnSpec>& columns);

  // The reader of the key columns. Callers may use it to read them in advance.
  const RowReader& rows() const { return *rows_; }

  // Replaces *out by the key of each row. Decodes the rows' blocks of the key
  // columns, and reads them in one round if they are not in memory.
  Status read(std::span<const uint64_t> rows, KeyBuffer* out) const;
  // Appends the keys of a range of rows.
  // REQUIRES: `out` is empty, or this function has filled it.
  Status read_range(RowRange rows, KeyBuffer* out) const;

  // Replaces *key by the key of one row. Faster than read() if the columns are
  // plain and the file is mapped.
  Status read_one(uint64_t row, ByteBuffer* key) const;

  // Compares the key of a row with `target`, which may be any bytes. Returns
  // the sign. Plain columns of a mapped file are decoded without Arrow, which
  // makes single lookups faster.
  Result<int> compare(uint64_t row, ByteSpan target) const;
  // Returns the first of rows [begin, end) whose key is not below the target.
  // REQUIRES: the keys of these rows ascend.
  Result<LowerBound> find(uint64_t begin, uint64_t end,
                          const KeySearch& search) const;
  // Prefetches the bytes that find() accesses first.
  void prefetch(uint64_t begin, uint64_t end, const KeySearch& search) const;

 private:
  // A key column of a mapped file that can be read value by value.
  struct Part {
    FlatColumn column;
    Field field;
  };

  RowKeys(std::shared_ptr<const RowReader> rows, KeyEncoder encoder)
      : rows_(std::move(rows)), encoder_(std::move(encoder)) {}

  // The first key column that still has to be compared, and its offset in the
  // target.
  struct Rest {
    size_t part = 0;
    size_t begin = 0;
  };

  void open_parts(const std::vector<KeyColumnSpec>& specs);
  // Returns the position in the target after the first `shared` bytes. All keys
  // that are searched begin with these bytes.
  Rest rest_of(const KeySearch& search) const;
  // Rows whose keys may equal a target. Earlier rows are below the target, and
  // later rows are above it. These rows equal the target in all columns before
  // `rest`.
  struct Candidates {
    uint64_t begin = 0;
    uint64_t end = 0;
    Rest rest;
  };
  // Narrows a few rows of the stripe of `at` by one column. Returns false if
  // this is not possible: the column must have integers that can be decoded at
  // once.
  Result<bool> narrow(const RowLocation& at, ByteSpan target,
                      Candidates* rows) const;
  Status out_of_order(uint64_t begin, uint64_t end) const;
  Result<LowerBound> find_decoded(uint64_t begin, uint64_t end,
                                  ByteSpan target) const;
  // Compares a key that equals the target in all columns before `rest`.
  Result<int> compare_at(const RowLocation& at, ByteSpan target,
                         Rest rest) const;
  Status append_part(const RowLocation& at, size_t part, ByteBuffer* key) const;
  // Appends the keys of rows that rows_ has read.
  Status append_keys(Column&& read, KeyBuffer* out) const;

  std::shared_ptr<const RowReader> rows_;
  KeyEncoder encoder_;       // for the output of rows_
  std::vector<Part> parts_;  // empty: columns are not plain
};

}  // namespace nimble
