// FileReader: an open file with its indexes and filters, which are read on
// first use. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "nimble/cursor/cluster_index.h"
#include "nimble/io/read_lock.h"
#include "nimble/lookup/index_lookup.h"
#include "nimble/open/open_file.h"
#include "nimble/scan/column_bloom.h"

namespace nimble {

class FileReader final : public OpenFile {
 public:
  static Result<std::shared_ptr<const FileReader>> open(
      std::shared_ptr<const ReadableFile> file, const ReaderOptions& options);

  // For searches by cluster key.
  // REQUIRES: the footer has a cluster index.
  const ClusterIndex& cluster() const { return cluster_; }
  // The following functions may block on a read (threads/blocking.h).
  // Secondary index i of the footer, opened on first use. The pointer is valid
  // as long as this reader.
  Result<const IndexLookup*> index(size_t i) const;
  // Bloom filters of columns, listed on first use. Null if the file has no such
  // filters.
  Result<std::shared_ptr<const ColumnBlooms>> column_blooms() const;

 private:
  FileReader() : cluster_(*this) {}

  struct OpenIndex {
    ReadMutex mutex{[this](bool was_held) {
      if (was_held && ready.load() == nullptr) reinit_leaking(&owner);
    }};
    std::atomic<const IndexLookup*> ready{nullptr};
    std::shared_ptr<const IndexLookup> owner;
  };
  struct OpenBlooms {
    ReadMutex mutex{[this](bool was_held) {
      if (was_held) reinit_leaking(&owner);
    }};
    std::shared_ptr<const ColumnBlooms> owner;
  };

  ClusterIndex cluster_;
  std::vector<std::unique_ptr<OpenIndex>> indexes_;
  mutable OpenBlooms column_blooms_;
};

}  // namespace nimble
