// KeyBatch: the keys of a record batch, encoded for one index.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <vector>

#include "nimble/bindings/values/arrow_bridge.h"
#include "nimble/format/footer.h"
#include "nimble/key/key_encoder.h"
#include "nimble/stripe/row_reader.h"

namespace nimble {

class KeyBatch {
 public:
  using Flags = pybind11::array_t<bool, pybind11::array::c_style>;

  // `batch` has the first of an index's `columns`, with their types. Keys that
  // match nothing are left out: those with a mark in `impossible`, and unless
  // `null_equals` those with a null.
  KeyBatch(const std::vector<KeyColumnSpec>& columns,
           const pybind11::handle& batch, bool null_equals,
           const std::optional<Flags>& impossible);

  // The keys that may match something.
  const KeyBuffer& keys() const { return keys_; }
  // What they were encoded by: of the batch's columns.
  const KeyEncoder& encoder() const { return encoder_; }
  // Have they all columns of the index?
  bool whole() const { return whole_; }
  // Rows of the batch, and which of them key i is.
  size_t num_rows() const { return num_rows_; }
  uint64_t row_of(uint64_t i) const {
    return numbers_.empty() ? i : numbers_[i];
  }

  // Of the columns of `reader` those that every row shares with its key: the
  // batch holds their values in the file's own type and form.
  std::vector<uint8_t> known_columns(const RowReader& reader) const;
  // Appends the values of such a column: of row rows[0] of the batch, rows[1]
  // and so on.
  Status append_known(const RowReader& reader, size_t column,
                      const std::vector<uint64_t>& rows, Column* out) const;

 private:
  // The column of the batch that a column of `reader` is, if any.
  std::optional<size_t> key_column(const RowReader& reader,
                                   size_t column) const;

  const std::vector<KeyColumnSpec>& columns_;
  std::unique_ptr<ImportedArray> batch_;
  KeyEncoder encoder_;
  KeyBuffer keys_;
  std::vector<uint64_t> numbers_;  // empty: no key is left out
  size_t num_rows_ = 0;
  bool whole_ = false;
};

}  // namespace nimble
