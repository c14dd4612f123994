// Column: appending rows of Arrow arrays.
#include <algorithm>

#include "nimble/column/column.h"
#include "nimble/column/value_key.h"

namespace nimble {
namespace {

template <class T>
void fill_nulls(T* values, const uint8_t* validity, uint64_t bit, uint64_t n,
                T last) {
  for (uint64_t i = 0; i < n; ++i) {
    if (get_bit(validity, bit + i)) {
      last = values[i];
    } else {
      values[i] = last;
    }
  }
}

}  // namespace

void Column::append_validity(const ArrayView& view, int64_t begin,
                             int64_t count) {
  const auto n = static_cast<uint64_t>(count);
  if (!view.may_have_nulls() && validity.size() == 0) return;
  if (view.may_have_nulls()) {
    const auto bit = static_cast<uint64_t>(view.offset() + begin);
    const uint64_t valid = count_bits(view.validity(), bit, n);
    if (valid == n && validity.size() == 0) return;
    ensure_validity();
    validity.resize((length_ + n) / 8 + 1);
    copy_bits(view.validity(), bit, n, validity.data(), length_);
    null_count_ += n - valid;
    return;
  }
  validity.resize((length_ + n) / 8 + 1);
  fill_bits(validity.data(), length_, n, true);
}

void Column::append_fixed(const ArrayView& view, int64_t begin, int64_t count) {
  const uint64_t width = field_->width;
  const auto n = static_cast<uint64_t>(count);
  uint8_t* to = extend_values(n);
  if (n * width > 0) {
    std::memcpy(to, view.values() + static_cast<uint64_t>(begin) * width,
                n * width);
  }
  if (!view.may_have_nulls()) return;
  const auto bit = static_cast<uint64_t>(view.offset() + begin);
  const bool first = length_ == 0;
  switch (width) {
    case 1:
      return fill_nulls<uint8_t>(to, view.validity(), bit, n,
                                 first ? uint8_t{0} : to[-1]);
    case 2:
      return fill_nulls(reinterpret_cast<uint16_t*>(to), view.validity(), bit,
                        n, first ? uint16_t{0} : load<uint16_t>(to - 2));
    case 4:
      return fill_nulls(reinterpret_cast<uint32_t*>(to), view.validity(), bit,
                        n, first ? 0u : load<uint32_t>(to - 4));
    case 8:
      return fill_nulls(reinterpret_cast<uint64_t*>(to), view.validity(), bit,
                        n, first ? uint64_t{0} : load<uint64_t>(to - 8));
    default:
      break;
  }
  for (uint64_t i = 0; i < n; ++i) {
    if (get_bit(view.validity(), bit + i)) continue;
    if (i == 0 && first) {
      std::memset(to, 0, width);
    } else {
      std::memcpy(to + i * width, to + i * width - width, width);
    }
  }
}

Status Column::append_strings(const ArrayView& view, int64_t begin,
                              int64_t count, const std::string& path) {
  if (!view.has_sound_offsets(begin, count)) {
    return Status::invalid_argument("column '" + path +
                                    "': invalid data: string offsets descend");
  }
  const uint64_t first = bytes.add_values(static_cast<uint64_t>(count));
  if (!view.may_have_nulls() && !field_->is_view && bytes.wide) {
    append_string_run(view, begin, count, first);
    return Status::ok();
  }
  uint64_t end = bytes.data.size();
  for (int64_t i = 0; i < count; ++i) {
    const std::string_view s = view.bytes_at(begin + i);
    bytes.data.append(s.data(), s.size());
    end += s.size();
    bytes.set_end(first + static_cast<uint64_t>(i), end);
  }
  return Status::ok();
}

void Column::append_string_run(const ArrayView& view, int64_t begin,
                               int64_t count, uint64_t first) {
  const std::string_view head = view.bytes_at(begin);
  const std::string_view tail = view.bytes_at(begin + count - 1);
  const uint64_t at = bytes.data.size();
  bytes.data.append(head.data(), static_cast<size_t>(tail.data() + tail.size() -
                                                     head.data()));
  int64_t* to = bytes.offsets.as<int64_t>() + first + 1;
  const auto shift = [&](const auto* source) {
    const auto base =
        static_cast<int64_t>(at) - static_cast<int64_t>(source[0]);
    for (int64_t i = 0; i < count; ++i) to[i] = source[i + 1] + base;
  };
  const int64_t row = view.offset() + begin;
  if (field_->wide_offsets) {
    shift(reinterpret_cast<const int64_t*>(view.buffer(1)) + row);
  } else {
    shift(reinterpret_cast<const int32_t*>(view.buffer(1)) + row);
  }
}

Status Column::append_lists(const ArrayView& view, int64_t begin, int64_t count,
                            const std::string& path) {
  const ArrayView& child = view.children()[0];
  // Consecutive lists are usually adjacent in the child, so each such run needs
  // one append.
  int64_t run_begin = 0, run_end = 0;
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = 0, n = 0;
    if (view.is_valid(begin + i)) view.list_at(begin + i, &at, &n);
    if (n < 0 || at < 0 || at > child.length() - n) {
      return Status::invalid_argument(
          "column '" + path + "': list of row " + std::to_string(begin + i) +
          " reaches past its " + std::to_string(child.length()) + " items");
    }
    ends.push_back(ends.back() + n);
    if (n == 0) continue;
    if (at != run_end || run_begin == run_end) {
      NIMBLE_RETURN_IF_ERROR(children[0].append(
          child, run_begin, run_end - run_begin, path + ".item"));
      run_begin = at;
    }
    run_end = at + n;
  }
  return children[0].append(child, run_begin, run_end - run_begin,
                            path + ".item");
}

Status Column::append_union(const ArrayView& view, int64_t begin, int64_t count,
                            const std::string& path) {
  values.reserve(length_ + static_cast<uint64_t>(count));
  for (int64_t i = begin; i < begin + count; ++i) {
    const int c = view.union_child(i);
    if (c < 0) {
      return Status::invalid_argument("column '" + path + "': row " +
                                      std::to_string(i) +
                                      " has a type id that its type lacks");
    }
    const auto child = static_cast<size_t>(c);
    const auto id = static_cast<uint8_t>(field_->type_ids[child]);
    values.append(&id, 1);
    if (!field_->is_dense_union) continue;
    ends.push_back(static_cast<int64_t>(children[child].length()));
    NIMBLE_RETURN_IF_ERROR(children[child].append(view.children()[child],
                                                  view.union_row(i), 1, path));
  }
  if (field_->is_dense_union) return Status::ok();
  for (size_t c = 0; c < children.size(); ++c) {
    NIMBLE_RETURN_IF_ERROR(
        children[c].append(view.children()[c], view.child_row(begin), count,
                           path + "." + field_->children[c].name));
  }
  return Status::ok();
}

Status Column::append_runs(const ArrayView& view, int64_t begin, int64_t count,
                           const std::string& path) {
  std::string key;
  int64_t row = begin;
  while (row < begin + count) {
    const int64_t run = view.run_of(row);
    if (run >= view.children()[1].length()) {
      return Status::invalid_argument("column '" + path +
                                      "': run ends stop before row " +
                                      std::to_string(row));
    }
    const int64_t end =
        std::min(begin + count, view.run_end(run) - view.offset());
    // A run that continues in the next batch remains one run: the stored data
    // must not depend on how rows are batched.
    key.clear();
    append_value_key(view.children()[1], run, &key);
    if (ends.empty() || key != last_run_) {
      NIMBLE_RETURN_IF_ERROR(
          children[0].append(view.children()[1], run, 1, path + ".values"));
      ends.push_back(0);
      last_run_ = key;
    }
    ends.back() = static_cast<int64_t>(length_) + end - begin;
    row = end;
  }
  return Status::ok();
}

Status Column::append_dictionary(const ArrayView& view, int64_t begin,
                                 int64_t count, const std::string& path) {
  NIMBLE_ASSIGN_OR_RETURN(const std::vector<int64_t>* places,
                          mapper->map(view.dictionary(), path));
  const uint64_t width = field_->width;
  const auto size = static_cast<int64_t>(places->size());
  const uint64_t bits = width * 8 - (field_->is_signed ? 1 : 0);
  if (bits < 63 && mapper->values.length() > uint64_t{1} << bits) {
    return Status::invalid_argument(
        "column '" + path + "': the batches' dictionaries have " +
        std::to_string(mapper->values.length()) +
        " different values together, more than its " + field_->type_name() +
        " codes can number; cast the column to wider codes");
  }
  uint8_t* to = extend_values(static_cast<uint64_t>(count));
  // Null slots repeat the previous code, also across batches.
  int64_t last = 0;
  if (length_ > 0) std::memcpy(&last, to - width, width);
  for (int64_t i = 0; i < count; ++i, to += width) {
    if (view.is_valid(begin + i)) {
      const int64_t code = view.code_at(begin + i);
      if (code < 0 || code >= size) {
        return Status::invalid_argument(
            "column '" + path + "': row " + std::to_string(begin + i) +
            " has code " + std::to_string(code) + " of a dictionary of " +
            std::to_string(size));
      }
      last = (*places)[static_cast<size_t>(code)];
    }
    std::memcpy(to, &last, width);
  }
  return Status::ok();
}

Status Column::append(const ArrayView& view, int64_t begin, int64_t count,
                      const std::string& path) {
  if (count == 0) return Status::ok();
  if (field_->has_validity()) append_validity(view, begin, count);
  switch (field_->layout) {
    case Layout::kNull:
      break;
    case Layout::kFixed:
      append_fixed(view, begin, count);
      break;
    case Layout::kBool:
      extend_bits(static_cast<uint64_t>(count));
      copy_bits(view.bits(), static_cast<uint64_t>(view.offset() + begin),
                static_cast<uint64_t>(count), values.data(), length_);
      break;
    case Layout::kBytes:
      NIMBLE_RETURN_IF_ERROR(append_strings(view, begin, count, path));
      break;
    case Layout::kList:
      NIMBLE_RETURN_IF_ERROR(append_lists(view, begin, count, path));
      break;
    case Layout::kFixedList:
      NIMBLE_RETURN_IF_ERROR(
          children[0].append(view.children()[0], view.child_row(begin),
                             count * field_->list_size, path + ".item"));
      break;
    case Layout::kStruct:
      for (size_t c = 0; c < children.size(); ++c) {
        NIMBLE_RETURN_IF_ERROR(children[c].append(
            view.children()[c], view.child_row(begin), count,
            path.empty() ? field_->children[c].name
                         : path + "." + field_->children[c].name));
      }
      break;
    case Layout::kDictionary:
      NIMBLE_RETURN_IF_ERROR(append_dictionary(view, begin, count, path));
      break;
    case Layout::kRunEnd:
      NIMBLE_RETURN_IF_ERROR(append_runs(view, begin, count, path));
      break;
    case Layout::kUnion:
      NIMBLE_RETURN_IF_ERROR(append_union(view, begin, count, path));
      break;
  }
  length_ += static_cast<uint64_t>(count);
  return Status::ok();
}

}  // namespace nimble
