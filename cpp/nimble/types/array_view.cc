#include "nimble/types/array_view.h"

namespace nimble {
namespace {

int64_t num_buffers(const Field& f) {
  switch (f.layout) {
    case Layout::kNull:
    case Layout::kRunEnd:
      return 0;
    case Layout::kStruct:
    case Layout::kFixedList:
      return 1;
    case Layout::kUnion:
      return f.is_dense_union ? 2 : 1;
    case Layout::kBytes:
      return 3;  // views have at least 3
    case Layout::kList:
      return f.is_view ? 3 : 2;
    default:
      return 2;
  }
}

template <class T>
T at(const uint8_t* p, int64_t i) {
  return load<T>(p + static_cast<uint64_t>(i) * sizeof(T));
}

}  // namespace

Result<ArrayView> ArrayView::open(const Field& field, const ArrowArray& array,
                                  const std::string& path) {
  const bool dictionary = field.layout == Layout::kDictionary;
  if (array.n_children != static_cast<int64_t>(field.children.size()) ||
      array.n_buffers < num_buffers(field) ||
      dictionary != (array.dictionary != nullptr)) {
    return Status::invalid_argument(
        "column '" + path + "': an Arrow array with " +
        std::to_string(array.n_buffers) + " buffers and " +
        std::to_string(array.n_children) + " children is not a " +
        field.type_name());
  }
  ArrayView v;
  v.field_ = &field;
  v.array_ = &array;
  v.length_ = array.length;
  v.offset_ = array.offset;
  if (field.has_validity() && array.null_count != 0) v.validity_ = v.buffer(0);
  if (field.layout == Layout::kFixed || dictionary) {
    v.values_ = v.buffer(1);
    if (v.values_ != nullptr) {
      v.values_ += static_cast<uint64_t>(array.offset) * field.width;
    }
  }
  for (size_t i = 0; i < field.children.size(); ++i) {
    NIMBLE_ASSIGN_OR_RETURN(ArrayView child,
                            open(field.children[i], *array.children[i],
                                 path + "." + field.children[i].name));
    v.children_.push_back(std::move(child));
  }
  if (dictionary) {
    NIMBLE_ASSIGN_OR_RETURN(
        ArrayView values,
        open(field.dictionary[0], *array.dictionary, path + ".dictionary"));
    v.children_.push_back(std::move(values));
  }
  return v;
}

namespace {

template <class T>
bool ascending(const T* offsets, int64_t count) {
  T down = 0;
  for (int64_t i = 0; i < count; ++i) down |= offsets[i + 1] < offsets[i];
  return down == 0 && offsets[0] >= 0;
}

}  // namespace

bool ArrayView::has_sound_offsets(int64_t begin, int64_t count) const {
  if (field_->is_view) return true;
  const int64_t row = offset_ + begin;
  return field_->wide_offsets
             ? ascending(reinterpret_cast<const int64_t*>(buffer(1)) + row,
                         count)
             : ascending(reinterpret_cast<const int32_t*>(buffer(1)) + row,
                         count);
}

std::string_view ArrayView::bytes_at(int64_t row) const {
  if (!is_valid(row)) return {};
  const int64_t i = offset_ + row;
  if (field_->is_view) {
    const uint8_t* view = buffer(1) + static_cast<uint64_t>(i) * 16;
    const auto size = static_cast<size_t>(load<int32_t>(view));
    if (size <= 12) return {reinterpret_cast<const char*>(view) + 4, size};
    const uint8_t* data = buffer(2 + load<int32_t>(view + 8));
    return {reinterpret_cast<const char*>(data) + load<int32_t>(view + 12),
            size};
  }
  int64_t begin, end;
  if (field_->wide_offsets) {
    begin = at<int64_t>(buffer(1), i);
    end = at<int64_t>(buffer(1), i + 1);
  } else {
    begin = at<int32_t>(buffer(1), i);
    end = at<int32_t>(buffer(1), i + 1);
  }
  return {reinterpret_cast<const char*>(buffer(2)) + begin,
          static_cast<size_t>(end - begin)};
}

void ArrayView::list_at(int64_t row, int64_t* begin, int64_t* size) const {
  const int64_t i = offset_ + row;
  if (field_->is_view) {
    if (field_->wide_offsets) {
      *begin = at<int64_t>(buffer(1), i);
      *size = at<int64_t>(buffer(2), i);
    } else {
      *begin = at<int32_t>(buffer(1), i);
      *size = at<int32_t>(buffer(2), i);
    }
    return;
  }
  if (field_->wide_offsets) {
    *begin = at<int64_t>(buffer(1), i);
    *size = at<int64_t>(buffer(1), i + 1) - *begin;
  } else {
    *begin = at<int32_t>(buffer(1), i);
    *size = at<int32_t>(buffer(1), i + 1) - *begin;
  }
}

int64_t ArrayView::code_at(int64_t row) const {
  switch (field_->width) {
    case 1:
      return field_->is_signed ? at<int8_t>(values_, row)
                               : at<uint8_t>(values_, row);
    case 2:
      return field_->is_signed ? at<int16_t>(values_, row)
                               : at<uint16_t>(values_, row);
    case 4:
      return field_->is_signed
                 ? at<int32_t>(values_, row)
                 : static_cast<int64_t>(at<uint32_t>(values_, row));
    default:
      return at<int64_t>(values_, row);
  }
}

int ArrayView::union_child(int64_t row) const {
  const int8_t id = at<int8_t>(buffer(0), offset_ + row);
  for (size_t i = 0; i < field_->type_ids.size(); ++i) {
    if (field_->type_ids[i] == id) return static_cast<int>(i);
  }
  return -1;
}

int64_t ArrayView::union_row(int64_t row) const {
  if (!field_->is_dense_union) return child_row(row);
  return at<int32_t>(buffer(1), offset_ + row);
}

int64_t ArrayView::run_end(int64_t run) const {
  const ArrayView& ends = children_[0];
  return ends.code_at(run);
}

int64_t ArrayView::run_of(int64_t row) const {
  const int64_t target = offset_ + row;
  int64_t lo = 0, hi = children_[0].length();
  while (lo < hi) {  // finds the first run that ends past the row
    const int64_t mid = lo + (hi - lo) / 2;
    if (run_end(mid) <= target) {
      lo = mid + 1;
    } else {
      hi = mid;
    }
  }
  return lo;
}

ArrayView ArrayView::slice(int64_t begin, int64_t count) const {
  ArrayView v = *this;
  v.offset_ += begin;
  v.length_ = count;
  if (v.values_ != nullptr) {
    v.values_ += static_cast<uint64_t>(begin) * field_->width;
  }
  return v;
}

}  // namespace nimble
