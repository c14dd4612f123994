#include "nimble/cursor/column_keys.h"

#include <algorithm>

namespace nimble {

Result<const KeySource*> ColumnKeys::source() {
  if (keys_ == nullptr) {
    NIMBLE_ASSIGN_OR_RETURN(keys_, index_.row_keys());
  }
  return static_cast<const KeySource*>(keys_ == nullptr ? nullptr : this);
}

Status ColumnKeys::fetch(std::span<const RowRange> ranges) const {
  if (ranges.empty()) return Status::ok();  // source() may not have been called
  const RowReader* const readers[] = {&keys_->rows(), wanted_};
  return fetch_rows({readers, wanted_ == nullptr ? 1u : 2u}, ranges);
}

RowRange ColumnKeys::answer_rows(uint64_t begin, uint64_t end) const {
  // The result may be row `end`. Row `end` + 1 is needed too, because it may
  // have the same key.
  return {begin, std::min(end + 2, index_.file().num_rows())};
}

Status ColumnKeys::fetch_answer(uint64_t begin, uint64_t end) const {
  if (wanted_ == nullptr || index_.file().file().mapped() != nullptr) {
    return Status::ok();
  }
  const RowRange range = answer_rows(begin, end);
  return fetch({&range, 1});
}

Result<LowerBound> ColumnKeys::find(uint64_t begin, uint64_t end,
                                    const KeySearch& search) const {
  NIMBLE_RETURN_IF_ERROR(fetch_answer(begin, end));
  return keys_->find(begin, end, search);
}

Result<int> ColumnKeys::compare(uint64_t row, ByteSpan target) const {
  NIMBLE_RETURN_IF_ERROR(fetch_answer(row, row));
  return keys_->compare(row, target);
}

Status ColumnKeys::read_keys(uint64_t begin, uint64_t end,
                             KeyBuffer* out) const {
  return keys_->read_range({begin, end}, out);
}

void ColumnKeys::prefetch(uint64_t begin, uint64_t end,
                          const KeySearch& search) const {
  keys_->prefetch(begin, end, search);
}

}  // namespace nimble
