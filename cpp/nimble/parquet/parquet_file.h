// ParquetFile: reads rows of a Parquet file by their numbers, page by page. If
// the caller has kept the footer and the table of pages, neither opening nor
// reading reads the footer again. Thread-safe.
//
//   page table of a file, one entry per row group and leaf:
//     dictionary offset, dictionary size, number of pages,
//     then for each page: offset, size, first row     (all varints)
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nimble/column/column.h"
#include "nimble/io/readable_file.h"
#include "nimble/parquet/column_plan.h"
#include "nimble/parquet/data_page.h"
#include "nimble/parquet/metadata.h"
#include "nimble/parquet/page_cache.h"

namespace nimble::parquet {

// Reads the thrift bytes of a file's footer. Fails with kUnsupported for an
// encrypted footer. Cost: one read of 64 KiB, and another for larger footers.
Result<std::vector<uint8_t>> read_footer(const ReadableFile& file);

// Finds the pages of all chunks, with offset indexes or by reading the page
// headers one after the other. If the rows of a chunk's pages are not known,
// the table has no pages for the chunk.
// Cost: one read per offset index, or one per page.
Result<std::vector<uint8_t>> make_page_table(const ReadableFile& file,
                                             const Metadata& metadata);

// Counters of one or many files.
struct PageStats {
  std::atomic<uint64_t> reads{0};
  std::atomic<uint64_t> bytes{0};
  std::atomic<uint64_t> rounds{0};
  std::atomic<uint64_t> pages{0};  // decompressed
};

// Selected columns of selected rows. The column refers to the field.
struct ReadRows {
  std::unique_ptr<const Field> field;  // a struct
  std::unique_ptr<Column> column;
};

class ParquetFile {
 public:
  // `schema` is a struct of the Arrow types of all top-level columns.
  // `decompress` may be empty.
  static Result<std::shared_ptr<const ParquetFile>> open(
      std::shared_ptr<const ReadableFile> file, ByteSpan footer,
      ByteSpan page_table, Field schema, std::shared_ptr<PageCache> cache,
      std::shared_ptr<PageStats> stats, Decompress decompress);

  uint64_t num_rows() const { return first_rows_.back(); }
  const Metadata& metadata() const { return metadata_; }
  const Field& schema() const { return schema_; }

  // The reason why a column cannot be read. Empty if the metadata allows
  // reading it.
  std::string unsupported(uint32_t column) const;

  // Reads rows, which must be ascending and distinct. All pages of a row group
  // are read in one round. Fails with kUnsupported if another reader is needed.
  Result<ReadRows> read(std::span<const uint32_t> columns,
                        std::span<const uint64_t> rows) const;

 private:
  ParquetFile() = default;

  struct Needed;
  Status parse_page_table(ByteSpan bytes);
  Status check_chunk(const LeafPlan& leaf, uint32_t group) const;
  // Reads rows of a group into the leaves of `columns`.
  Status read_group(uint32_t group, std::span<const uint64_t> rows,
                    std::span<const LeafPlan* const> leaves,
                    std::span<Column* const> outs,
                    std::span<LeafLevels* const> levels) const;
  Status fetch(uint32_t group, std::span<const LeafPlan* const> leaves,
               std::vector<Needed>* needed) const;

  std::shared_ptr<const ReadableFile> file_;
  Metadata metadata_;
  std::vector<uint64_t> first_rows_;  // of each group, and the total
  std::vector<ChunkPages> chunks_;    // group * num_leaves + leaf
  Field schema_;
  std::vector<std::optional<ColumnPlan>> plans_;
  std::vector<std::string> reasons_;
  std::shared_ptr<PageCache> cache_;
  std::shared_ptr<PageStats> stats_;
  Decompress decompress_;
  uint64_t id_ = 0;  // identifies the file in the cache
};

}  // namespace nimble::parquet
