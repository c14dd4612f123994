// Column: appending rows of another column, in any order. Used for sorting and
// reordering.
#include "nimble/column/column.h"

namespace nimble {
namespace {

template <class T>
void gather_values(const uint8_t* from, const uint64_t* rows, uint64_t n,
                   uint8_t* to) {
  const T* values = reinterpret_cast<const T*>(from);
  T* out = reinterpret_cast<T*>(to);
  for (uint64_t i = 0; i < n; ++i) out[i] = values[rows[i]];
}

void gather_fixed(const uint8_t* from, uint64_t width, const uint64_t* rows,
                  uint64_t n, uint8_t* to) {
  switch (width) {
    case 0:
      return;  // `from` may be null
    case 1:
      return gather_values<uint8_t>(from, rows, n, to);
    case 2:
      return gather_values<uint16_t>(from, rows, n, to);
    case 4:
      return gather_values<uint32_t>(from, rows, n, to);
    case 8:
      return gather_values<uint64_t>(from, rows, n, to);
    default:
      for (uint64_t i = 0; i < n; ++i) {
        std::memcpy(to + i * width, from + rows[i] * width, width);
      }
  }
}

void gather_bits(const uint8_t* from, const uint64_t* rows, uint64_t n,
                 uint8_t* to, uint64_t at) {
  for (uint64_t i = 0; i < n; ++i) put_bit(to, at + i, get_bit(from, rows[i]));
}

}  // namespace

void Column::append_rows(const Column& from, const uint64_t* rows,
                         uint64_t count) {
  if (count == 0) return;
  if (field_->layout == Layout::kDictionary && !dictionary) {
    dictionary = from.dictionary;
  }
  if (from.validity.size() > 0 || validity.size() > 0) {
    ensure_validity();
    validity.resize((length_ + count) / 8 + 1);
    if (from.validity.size() > 0) {
      gather_bits(from.validity.data(), rows, count, validity.data(), length_);
      null_count_ += count - count_bits(validity.data(), length_, count);
    } else {
      fill_bits(validity.data(), length_, count, true);
    }
  }
  switch (field_->layout) {
    case Layout::kFixed:
    case Layout::kDictionary:
      gather_fixed(from.value_data(), field_->width, rows, count,
                   extend_values(count));
      break;
    case Layout::kBool:
      gather_bits(from.values.data(), rows, count, extend_bits(count), length_);
      break;
    case Layout::kBytes: {
      const uint64_t first = bytes.add_values(count);
      uint64_t total = 0;
      for (uint64_t i = 0; i < count; ++i) {
        total += from.bytes.end_of(rows[i]) - from.bytes.begin_of(rows[i]);
      }
      uint64_t end = bytes.data.size();
      bytes.data.resize(end + total);
      for (uint64_t i = 0; i < count; ++i) {
        const uint64_t begin = from.bytes.begin_of(rows[i]);
        const uint64_t size = from.bytes.end_of(rows[i]) - begin;
        if (size > 0) {
          std::memcpy(bytes.data.data() + end, from.bytes.data.data() + begin,
                      size);
        }
        end += size;
        bytes.set_end(first + i, end);
      }
      break;
    }
    default:
      gather_nested(from, rows, count);
  }
  length_ += count;
}

void Column::gather_nested(const Column& from, const uint64_t* rows,
                           uint64_t count) {
  std::vector<uint64_t> items;
  switch (field_->layout) {
    case Layout::kList:
      for (uint64_t i = 0; i < count; ++i) {
        const int64_t begin = from.ends[rows[i]], end = from.ends[rows[i] + 1];
        for (int64_t k = begin; k < end; ++k) {
          items.push_back(static_cast<uint64_t>(k));
        }
        ends.push_back(ends.back() + end - begin);
      }
      children[0].append_rows(from.children[0], items.data(), items.size());
      break;
    case Layout::kFixedList: {
      const auto width = static_cast<uint64_t>(field_->list_size);
      for (uint64_t i = 0; i < count; ++i) {
        for (uint64_t k = 0; k < width; ++k)
          items.push_back(rows[i] * width + k);
      }
      children[0].append_rows(from.children[0], items.data(), items.size());
      break;
    }
    case Layout::kStruct:
      for (size_t c = 0; c < children.size(); ++c) {
        children[c].append_rows(from.children[c], rows, count);
      }
      break;
    case Layout::kRunEnd: {
      // Each row starts a run, but consecutive rows of the same run form one
      // run.
      last_run_.reset();
      for (uint64_t i = 0; i < count; ++i) {
        const auto row = static_cast<int64_t>(rows[i]);
        uint64_t lo = 0, hi = from.ends.size();
        while (lo < hi) {
          const uint64_t mid = (lo + hi) / 2;
          if (from.ends[mid] <= row) {
            lo = mid + 1;
          } else {
            hi = mid;
          }
        }
        const auto end = static_cast<int64_t>(length_ + i + 1);
        if (!items.empty() && items.back() == lo) {
          ends.back() = end;
        } else {
          items.push_back(lo);
          ends.push_back(end);
        }
      }
      children[0].append_rows(from.children[0], items.data(), items.size());
      break;
    }
    case Layout::kUnion: {
      uint8_t* ids = nullptr;
      values.resize(length_ + count);
      ids = values.data() + length_;
      for (uint64_t i = 0; i < count; ++i) ids[i] = from.values.data()[rows[i]];
      for (size_t c = 0; c < children.size(); ++c) {
        if (!field_->is_dense_union) {
          children[c].append_rows(from.children[c], rows, count);
          continue;
        }
        const auto id = static_cast<uint8_t>(field_->type_ids[c]);
        items.clear();
        ends.resize(length_ + count);
        for (uint64_t i = 0; i < count; ++i) {
          if (ids[i] != id) continue;
          ends[length_ + i] =
              static_cast<int64_t>(children[c].length() + items.size());
          items.push_back(static_cast<uint64_t>(from.ends[rows[i]]));
        }
        children[c].append_rows(from.children[c], items.data(), items.size());
      }
      break;
    }
    default:
      break;
  }
}

}  // namespace nimble
