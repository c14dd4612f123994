// ArrayView: a borrowed, bounds-aware view of one Arrow array node, with the
// offset of slices applied. Rows are 0 .. length-1 of the view. Nothing is
// copied; the ArrowArray must outlive the view. Thread-safe.
//
// Arrow's C interface has no buffer sizes. The producer is a library in this
// process and is trusted to follow its layout rules.
#pragma once

#include <string_view>
#include <vector>

#include "nimble/base/bytes.h"
#include "nimble/types/field.h"

namespace nimble {

class ArrayView {
 public:
  ArrayView() = default;

  // Checks that the buffers and children of `array` match `field`.
  static Result<ArrayView> open(const Field& field, const ArrowArray& array,
                                const std::string& path);

  const Field& field() const { return *field_; }
  int64_t length() const { return length_; }
  // The first row of this view in the Arrow buffers.
  int64_t offset() const { return offset_; }
  // Children have their own coordinates: row r of a struct or sparse union is
  // row child_row(r) of every child.
  const std::vector<ArrayView>& children() const { return children_; }
  const ArrayView& dictionary() const { return children_.back(); }

  // False if the array has no bitmap, or declares no nulls.
  bool may_have_nulls() const { return validity_ != nullptr; }
  bool is_valid(int64_t row) const {
    if (validity_ == nullptr) return true;
    const auto bit = static_cast<uint64_t>(offset_ + row);
    return ((validity_[bit / 8] >> (bit % 8)) & 1) != 0;
  }
  // The bitmap, where bit offset() is row 0. Null if the array has no bitmap.
  const uint8_t* validity() const { return validity_; }

  // kFixed, and codes of kDictionary: address of row 0; width bytes per value.
  const uint8_t* values() const { return values_; }
  // kBool: the bitmap, where bit offset() is row 0.
  const uint8_t* bits() const { return buffer(1); }
  bool bool_at(int64_t row) const {
    const auto bit = static_cast<uint64_t>(offset_ + row);
    return ((bits()[bit / 8] >> (bit % 8)) & 1) != 0;
  }
  // kBytes: the value of a row; empty for nulls.
  std::string_view bytes_at(int64_t row) const;
  // kBytes: whether the offsets of rows [begin, begin + count) ascend. Arrow's
  // cheap validation checks the last offset only; if offsets ascend, all are
  // inside the data.
  bool has_sound_offsets(int64_t begin, int64_t count) const;
  // kList: the rows of the child that belong to a row.
  void list_at(int64_t row, int64_t* begin, int64_t* size) const;
  // kDictionary: the code of a row.
  // REQUIRES: the row is valid.
  int64_t code_at(int64_t row) const;
  // kUnion: the child that has the value of a row, and the row in that child.
  int union_child(int64_t row) const;
  int64_t union_row(int64_t row) const;
  // kRunEnd: the row of children()[1] that has the value of a row. Uses a
  // binary search.
  int64_t run_of(int64_t row) const;
  int64_t run_end(int64_t run) const;

  // Returns rows [begin, begin + count) as a view.
  ArrayView slice(int64_t begin, int64_t count) const;
  // The row of the children for `row` of this struct or sparse union, or the
  // first item for a fixed-size list.
  int64_t child_row(int64_t row) const {
    const int64_t at = offset_ + row;
    return field_->layout == Layout::kFixedList ? at * field_->list_size : at;
  }
  // Arrow's buffer i, from the beginning of the array.
  const uint8_t* buffer(int i) const {
    return static_cast<const uint8_t*>(array_->buffers[i]);
  }

 private:
  const Field* field_ = nullptr;
  const ArrowArray* array_ = nullptr;
  int64_t length_ = 0;
  int64_t offset_ = 0;
  const uint8_t* validity_ = nullptr;
  const uint8_t* values_ = nullptr;
  // In the coordinates of the array's own children, with their offset applied;
  // see child_row(). A dictionary's values are last.
  std::vector<ArrayView> children_;
};

}  // namespace nimble
