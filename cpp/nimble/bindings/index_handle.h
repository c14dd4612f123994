// IndexHandle: one index of a file, held by Python (_core.Index). Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "nimble/bindings/core_file.h"
#include "nimble/lookup/index_lookup.h"

namespace nimble {

class IndexHandle {
 public:
  // Opens secondary index `number` of the footer, or the cluster index if
  // `number` is not set. Releases the GIL. Raises if the file does not have
  // this index.
  static std::shared_ptr<const IndexHandle> open(
      std::shared_ptr<const FileReader> file, std::optional<size_t> number);

  const FileReader& file() const { return *file_; }
  bool is_cluster() const { return cluster_ != nullptr; }
  // The key columns, in their order.
  const std::vector<KeyColumnSpec>& columns() const { return *columns_; }
  const IndexLookup& operator*() const { return *lookup_; }
  const IndexLookup* operator->() const { return lookup_; }

  // Raises unless the index supports bounds and places.
  void check_ordered() const;
  // Raises unless `reader` reads the same file as the index.
  void check_same_file(const RowReader& reader) const;

 private:
  IndexHandle() = default;

  std::shared_ptr<const FileReader> file_;
  // set for the cluster index; secondary indexes belong to the file
  std::unique_ptr<const IndexLookup> cluster_;
  const IndexLookup* lookup_ = nullptr;
  const std::vector<KeyColumnSpec>* columns_ = nullptr;
};

}  // namespace nimble
