// IndexHandle: one index of a file as Python holds it (_core.Index).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "nimble/bindings/core_file.h"
#include "nimble/lookup/index_lookup.h"

namespace nimble {

class IndexHandle {
 public:
  // The secondary index `number` of the footer, or without one the cluster
  // index. Opens it without the GIL; raises where the file has none such.
  static std::shared_ptr<const IndexHandle> open(
      std::shared_ptr<const FileReader> file, std::optional<size_t> number);

  const FileReader& file() const { return *file_; }
  bool is_cluster() const { return cluster_ != nullptr; }
  // Its key columns, in their order.
  const std::vector<KeyColumnSpec>& columns() const { return *columns_; }
  const IndexLookup& operator*() const { return *lookup_; }
  const IndexLookup* operator->() const { return lookup_; }

  // Raises unless the index has bounds and places.
  void check_ordered() const;
  // Raises unless `reader` reads the index's file.
  void check_same_file(const RowReader& reader) const;

 private:
  IndexHandle() = default;

  std::shared_ptr<const FileReader> file_;
  std::unique_ptr<const IndexLookup> cluster_;  // the file owns the others
  const IndexLookup* lookup_ = nullptr;
  const std::vector<KeyColumnSpec>* columns_ = nullptr;
};

}  // namespace nimble
