// OpenedFile: an open file of a serving manifest, with the positions of the
// manifest's columns and keys in it. Immutable and thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "nimble/lookup/index_lookup.h"
#include "nimble/reader/file_reader.h"
#include "nimble/serve/snapshot/serving_manifest.h"
#include "nimble/stripe/row_reader.h"
#include "nimble/stripe/value_reader.h"

namespace nimble {

// Open files by path, which the snapshots of all tables share. Thread-safe. A
// file stays open as long as a snapshot uses it.
class OpenFiles {
 public:
  // Opens and maps a file. May block.
  Result<std::shared_ptr<const FileReader>> open(const ServedFile& file);
  size_t size() const;  // number of open files

 private:
  mutable std::mutex mutex_;
  struct Known {
    std::weak_ptr<const FileReader> reader;
    // The identity of the file when it was opened. Another file may replace it
    // at the same path.
    uint64_t device = 0, inode = 0;
    int64_t changed_nanos = 0;
  };
  std::map<std::string, Known> files_;
};

// How a column of the manifest is read from a file.
struct ServedColumn {
  // The child of the file's root struct, or nullopt if the file does not have
  // the column.
  std::optional<size_t> top;
  bool is_same = false;  // the file has it with the same type
  // Why this file's values cannot be read; empty if they can.
  std::string problem;
  // If the file does not have the column: its value, or null.
  const ServedConstant* constant = nullptr;
  // Set if single values can be read without a batch.
  std::optional<FlatColumn> flat;
  // Set with `flat`: the type to show the values as.
  const Field* field = nullptr;
};

// An index of a file that finds a key of the manifest.
struct ServedIndex {
  const IndexLookup* lookup = nullptr;
  // Column i of the index is column places[i] of the key.
  std::vector<size_t> places;
  bool is_whole = true;  // the key has all columns of the index
  bool same_keys =
      false;  // encoded keys of the manifest are those of the index
  bool is_cluster = false;
};

class OpenedFile {
 public:
  // `manifest` outlives this object. `lookup`, `cluster`: encoders of the
  // manifest's keys, or null.
  static Result<std::unique_ptr<const OpenedFile>> open(
      const ServingManifest& manifest, const ServedFile& file,
      const KeyEncoder* lookup, const KeyEncoder* cluster, OpenFiles* files);

  const FileReader& reader() const { return *reader_; }
  const std::shared_ptr<const FileReader>& owner() const { return reader_; }
  const ServedColumn& column(size_t i) const { return columns_[i]; }
  // Fails if a column cannot be read from this file.
  Status check_column(size_t i) const;
  const RowBitmap* deleted() const { return deleted_; }
  // Fail if the file does not have an index for the key.
  Result<const ServedIndex*> lookup_index() const;
  Result<const ServedIndex*> cluster_index() const;

 private:
  OpenedFile() = default;
  void find_columns(const ServingManifest& manifest, const ServedFile& file);
  // Finds an index that begins with the columns of the key. If `is_ordered`,
  // they must have the same order and directions.
  Result<std::optional<ServedIndex>> find_index(const ServingManifest& manifest,
                                                const ServedKey& key,
                                                const KeyEncoder& encoder,
                                                bool is_ordered) const;
  // The key's columns in this file. Empty if the file lacks one of them.
  std::vector<KeyColumnSpec> key_here(const ServingManifest& manifest,
                                      const ServedKey& key) const;

  std::shared_ptr<const FileReader> reader_;
  std::unique_ptr<const IndexLookup> cluster_lookup_;
  std::vector<ServedColumn> columns_;
  const RowBitmap* deleted_ = nullptr;
  std::optional<ServedIndex> lookup_, cluster_;
};

// The child of `parent` with the same field id, or the same name if the
// children have no field ids.
std::optional<size_t> match_field(const Field& wanted, const Field& parent);

}  // namespace nimble
