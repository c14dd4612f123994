// ColumnBlooms: which stripes of a file may hold a value, by the Bloom filters
// of a column. Any number of threads may use one.
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
  // Of a file that has the section; borrows it.
  static Result<std::shared_ptr<const ColumnBlooms>> open(
      const OpenFile& file, const SectionRef& section);

  // Rows of the stripes in `within` (ascending, disjoint) that may hold one of
  // these keys of a column; all of `within` where the column has no filters, or
  // where reading them would cost more than the column.
  Result<std::vector<RowRange>> prune(
      uint32_t node, const KeyBuffer& keys,
      const std::vector<RowRange>& within) const;

  // For verification: pre-order numbers of the columns' schema nodes, and
  // whether each key of a column, of rows from `first_row` on, passes the
  // filter of its stripe.
  std::vector<uint32_t> nodes() const;
  Status check_keys(uint32_t node, const KeyBuffer& keys,
                    uint64_t first_row) const;

 private:
  struct Column {
    uint32_t node = 0;
    uint64_t size_bytes = 0;
    std::vector<uint64_t> end_rows;
    std::vector<SectionRef> filters;
    // Of a mapped file: which filters have passed their checksums.
    std::unique_ptr<std::atomic<bool>[]> verified;
  };

  explicit ColumnBlooms(const OpenFile& file) : file_(file) {}
  Status parse(const std::vector<uint8_t>& root);
  Status check(const Column& column) const;
  const Column* column_of(uint32_t node) const;
  // The filter of a stripe; `held` owns its bytes where no map does.
  Result<BloomFilter> filter(const Column& column, size_t stripe,
                             RangeCache::Bytes* held) const;

  const OpenFile& file_;
  std::vector<Column> columns_;
};

}  // namespace nimble
