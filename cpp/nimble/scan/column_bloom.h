// ColumnBlooms: finds the stripes of a file that may contain a value, with the
// Bloom filters of its columns. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "nimble/base/row_range.h"
#include "nimble/index/bloom_filter.h"
#include "nimble/key/key_buffer.h"
#include "nimble/open/open_file.h"

namespace nimble {

class ColumnBlooms {
 public:
  // Reads `section`, which has the filters of `file`. Borrows the file. May
  // block.
  static Result<std::shared_ptr<const ColumnBlooms>> open(
      const OpenFile& file, const SectionRef& section);

  // Returns the part of `within` that is in stripes that may contain one of the
  // keys. Returns all of `within` if the column does not have filters, or if
  // reading them would cost more than reading the column. May block.
  // REQUIRES: `within` is ascending and disjoint.
  Result<std::vector<RowRange>> prune(
      uint32_t node, const KeyBuffer& keys,
      const std::vector<RowRange>& within) const;

  // For verification. nodes() returns the schema nodes of the columns, as
  // pre-order numbers. check_keys() checks that the keys of rows from
  // `first_row` on pass the filters of their stripes.
  std::vector<uint32_t> nodes() const;
  Status check_keys(uint32_t node, const KeyBuffer& keys,
                    uint64_t first_row) const;

 private:
  struct Column {
    uint32_t node = 0;
    uint64_t size_bytes = 0;
    std::vector<uint64_t> end_rows;
    std::vector<SectionRef> filters;
    // Whether the checksum of each filter of a mapped file is verified.
    std::unique_ptr<std::atomic<bool>[]> verified;
  };

  explicit ColumnBlooms(const OpenFile& file) : file_(file) {}
  Status parse(const std::vector<uint8_t>& root);
  Status check(const Column& column) const;
  const Column* column_of(uint32_t node) const;
  // Returns the filter of a stripe. `held` owns its bytes if the file is not
  // mapped.
  Result<BloomFilter> filter(const Column& column, size_t stripe,
                             RangeCache::Bytes* held) const;

  const OpenFile& file_;
  std::vector<Column> columns_;
};

}  // namespace nimble
