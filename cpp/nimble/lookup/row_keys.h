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
  // The first of rows [begin, end), whose keys ascend, that is not below the
  // target.
  Result<LowerBound> find(uint64_t begin, uint64_t end,
                          const KeySearch& search) const;
  // Asks for the bytes that find() looks at first.
  void prefetch(uint64_t begin, uint64_t end, const KeySearch& search) const;

 private:
  // A key column of a mapped file that is read value by value.
  struct Part {
    FlatColumn column;
    Field field;
  };

  RowKeys(std::shared_ptr<const RowReader> rows, KeyEncoder encoder)
      : rows_(std::move(rows)), encoder_(std::move(encoder)) {}

  // The first column of a key that has to be looked at, and where it begins.
  struct Rest {
    size_t part = 0;
    size_t begin = 0;
  };

  void open_parts(const std::vector<KeyColumnSpec>& specs);
  // What is left of a target whose first `shared` bytes the keys have as well.
  Rest rest_of(const KeySearch& search) const;
  // Bytes that a column takes at the beginning of `target`; 0 where that does
  // not have all of them.
  size_t part_size(size_t part, ByteSpan target) const;
  // Rows whose keys may equal a target: those before are below it, those behind
  // above, and these equal it in what is before `rest`.
  struct Candidates {
    uint64_t begin = 0;
    uint64_t end = 0;
    Rest rest;
  };
  // Narrows few rows of the stripe of `at` by one column, if that has integers,
  // which are decoded at once; false where it leaves them as they are.
  Result<bool> narrow(const RowLocation& at, ByteSpan target,
                      Candidates* rows) const;
  Status out_of_order(uint64_t begin, uint64_t end) const;
  Result<LowerBound> find_decoded(uint64_t begin, uint64_t end,
                                  ByteSpan target) const;
  // Of keys that equal the target in what is before `rest`.
  Result<int> compare_at(const RowLocation& at, ByteSpan target,
                         Rest rest) const;
  Status append_part(const RowLocation& at, size_t part, ByteBuffer* key) const;
  // Appends the keys of rows that rows_ has read.
  Status append_keys(Column&& read, KeyBuffer* out) const;

  std::shared_ptr<const RowReader> rows_;
  KeyEncoder encoder_;       // of what rows_ gives
  std::vector<Part> parts_;  // empty: keys are made the long way
};

}  // namespace nimble
