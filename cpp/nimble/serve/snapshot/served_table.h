// ServedTable: one snapshot of a table, read without Python. Finds rows by key,
// by prefix and by bounds in many files, and reads them. Does not find deleted
// rows. Immutable and thread-safe: a server replaces whole tables.
//
// Files are opened when they are first needed and remain open as long as the
// table exists. Functions may block on reads.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nimble/locate/locate.h"
#include "nimble/serve/snapshot/opened_file.h"

namespace nimble {

struct RowAddress {
  uint32_t file = 0;
  uint64_t row = 0;
};

struct FileRange {
  uint32_t file = 0;
  RowRange rows;
};

// A key, or its first values. Reusing an object reuses its memory.
struct TypedKey {
  std::vector<std::string> bytes;  // `values` borrow from these
  std::vector<KeyScalar> values;
  ByteBuffer encoded;  // with the manifest's encoder
  bool has_null = false;
};

// Rows between two bounds, or with a prefix, in the order of the cluster key.
struct OrderedRows {
  TypedKey lower, upper;  // a prefix is in `lower`
  bool is_prefix = false;
  bool starts_with = false;  // the last value of the prefix may be incomplete
  bool has_lower = false, has_upper = false;
  bool lower_inclusive = true, upper_inclusive = false;
  uint64_t limit = UINT64_MAX;
  bool reverse = false;
  // Only rows with the key `resume`, or only rows after it in the direction of
  // the read. Null: all rows.
  const TypedKey* resume = nullptr;
  bool is_resume_key = false;
};

class ServedTable {
 public:
  static Result<std::shared_ptr<const ServedTable>> create(
      ServingManifest manifest, std::shared_ptr<OpenFiles> files);

  const ServingManifest& manifest() const { return manifest_; }
  // Identifies this state of the table: no other manifest has it.
  std::string version() const;
  const Field& schema() const { return manifest_.schema; }
  uint64_t num_rows() const { return num_rows_; }  // deleted rows excluded
  std::optional<uint32_t> find_column(std::string_view name) const;
  // Whether the table has a column of this number and name.
  bool is_column(uint32_t column, std::string_view name) const {
    return column < manifest_.schema.children.size() &&
           manifest_.schema.children[column].name == name;
  }
  // Bytes of the names of all columns in a reply.
  uint64_t name_bytes() const { return name_bytes_; }
  // 0, 1, 2, ...: all columns.
  const std::vector<uint32_t>& all_columns() const { return all_columns_; }
  // Opens at most `most` files of local disks ahead. Errors, such as a missing
  // file, are reported by the first request that needs the file.
  void open_ahead(size_t most) const;

  // File i of the manifest, opened if necessary.
  Result<const OpenedFile*> file(uint32_t i) const;
  // The open file with this checksum of its footer and this size, or null.
  const OpenedFile* find_file(uint64_t checksum, uint64_t size) const;

  // Reads the text of a whole key. Returns false if no row can have it. Fails
  // with kInvalidArgument if the text is not a key of this table.
  Result<bool> read_key(std::string_view text, TypedKey* out) const;
  // Reads the first values of the cluster key. `starts_with`: the last value is
  // the beginning of a text.
  Result<bool> read_cluster_key(std::string_view text, bool starts_with,
                                TypedKey* out) const;
  // Appends the cluster key of a row, in the form for read_cluster_key().
  Status append_cluster_key(RowAddress row, std::string* out) const;

  // The first row with the key.
  Result<std::optional<RowAddress>> find_first(const TypedKey& key) const;
  // Finds all rows that have one of these keys, which are texts for read_key().
  // Overwrites `scratch`.
  Result<LocatedRows> find(std::span<const std::string_view> texts,
                           TypedKey* scratch) const;
  // Finds rows in key order (ordered_rows.cc), as disjoint ranges of up to
  // limit + 1 rows in total. The additional row shows that there are more rows.
  Result<std::vector<FileRange>> find_ordered(const OrderedRows& rows) const;

 private:
  // Bounds of a key in the order of the lower bounds, to find files quickly.
  struct Router {
    std::vector<uint32_t> order;
    std::vector<std::string> reach;  // running maximum of the upper bounds
  };

  ServedTable() = default;
  Result<bool> read_values(std::string_view text, const KeyEncoder& encoder,
                           std::span<const Field* const> fields, bool is_whole,
                           bool starts_with, TypedKey* out) const;
  static Router make_router(const ServedKey& key);
  // Appends the files, ascending, that may have keys in [first, end). An empty
  // `end` means no limit.
  static void route(const ServedKey& key, const Router& router, ByteSpan first,
                    ByteSpan end, std::vector<uint32_t>* out);
  Result<std::optional<uint64_t>> find_in(const OpenedFile& file,
                                          const ServedIndex& index,
                                          const TypedKey& key) const;
  // Appends the live rows of one file in key order: the first `limit` rows, or
  // the last ones in reverse.
  Status ordered_in(uint32_t number, const OrderedRows& rows, uint64_t limit,
                    std::vector<FileRange>* out) const;
  Result<std::vector<FileRange>> merge_ordered(
      const std::vector<std::vector<FileRange>>& files, const OrderedRows& rows,
      uint64_t limit) const;

  ServingManifest manifest_;
  std::shared_ptr<OpenFiles> open_files_;
  uint64_t num_rows_ = 0;
  uint64_t name_bytes_ = 0;
  std::vector<uint32_t> all_columns_;
  std::vector<std::pair<std::string, uint32_t>> names_;  // sorted
  std::optional<KeyEncoder> lookup_encoder_, cluster_encoder_;
  std::vector<const Field*> lookup_fields_, cluster_fields_;
  Router lookup_router_, cluster_router_;
  mutable std::mutex mutex_;
  // Set once for each file, under the mutex.
  mutable std::vector<std::unique_ptr<const OpenedFile>> owners_;
  mutable std::unique_ptr<std::atomic<const OpenedFile*>[]> opened_;
};

}  // namespace nimble
