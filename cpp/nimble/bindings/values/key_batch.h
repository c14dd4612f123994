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

// For each key column: (descending, nulls first).
using KeyOrders = std::vector<std::pair<bool, bool>>;

// Returns key columns that are the columns of a batch, in order.
std::vector<KeyColumnSpec> key_specs(const KeyOrders& orders);

class KeyBatch {
 public:
  using Flags = pybind11::array_t<bool, pybind11::array::c_style>;

  // `batch` has the first columns of an index's `columns`, with their types.
  // Leaves out keys that cannot match: keys marked in `impossible`, and, unless
  // `null_equals`, keys with a null. Borrows `columns`.
  KeyBatch(const std::vector<KeyColumnSpec>& columns,
           const pybind11::handle& batch, bool null_equals,
           const std::optional<Flags>& impossible);

  // The keys that may match.
  const KeyBuffer& keys() const { return keys_; }
  // The encoder of the batch's columns.
  const KeyEncoder& encoder() const { return encoder_; }
  // Whether the keys have all columns of the index.
  bool whole() const { return whole_; }
  // num_rows() is the number of rows of the batch. row_of(i) is the row that
  // has key i.
  size_t num_rows() const { return num_rows_; }
  uint64_t row_of(uint64_t i) const {
    return numbers_.empty() ? i : numbers_[i];
  }

  // Returns which columns of `reader` need not be read, because the batch has
  // them with the file's type: every matching row has the same value as its
  // key.
  std::vector<uint8_t> known_columns(const RowReader& reader) const;
  // Appends the values of a known column, from rows rows[0], rows[1] and so on
  // of the batch.
  Status append_known(const RowReader& reader, size_t column,
                      const std::vector<uint64_t>& rows, Column* out) const;

 private:
  // Returns the batch's column that has the values of a column of `reader`, if
  // there is one.
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
