// KeyBounds: FileKeyBounds that are stored in Arrow arrays (_core.KeyBounds).
#pragma once

#include <memory>

#include "nimble/bindings/values/arrow_bridge.h"
#include "nimble/bindings/values/errors.h"
#include "nimble/locate/files_by_key.h"

namespace nimble {

class KeyBounds final : public FileKeyBounds {
 public:
  // `batch` has two columns of encoded keys: the lower and the upper bounds.
  // They are byte strings without nulls.
  explicit KeyBounds(const pybind11::object& batch)
      : batch_(ImportedArray::from_python(batch)) {
    const ArrayView& view = batch_->view();
    bool is_right = view.children().size() == 2;
    for (const ArrayView& c : view.children()) {
      is_right &= c.field().layout == Layout::kBytes;
    }
    if (!is_right) {
      raise(Status::invalid_argument(
          "bounds of keys: expected two columns of byte strings"));
    }
  }

  size_t size() const override {
    return static_cast<size_t>(batch_->view().length());
  }
  ByteSpan lower(size_t file) const override { return bound(0, file); }
  ByteSpan upper(size_t file) const override { return bound(1, file); }

 private:
  ByteSpan bound(size_t column, size_t file) const {
    const ArrayView& view = batch_->view();
    const auto row = view.child_row(static_cast<int64_t>(file));
    return as_bytes(view.children()[column].bytes_at(row));
  }

  std::unique_ptr<ImportedArray> batch_;
};

}  // namespace nimble
