#include "nimble/file/dictionary_values.h"

namespace nimble {
namespace {

void put_u64(uint64_t v, std::string* out) {
  out->append(reinterpret_cast<const char*>(&v), 8);
}

// Appends a self-delimiting byte string that is the same for equal values.
void append_value(const ArrayView& view, int64_t row, std::string* out) {
  const Field& f = view.field();
  if (f.has_validity()) {
    out->push_back(view.is_valid(row) ? '\1' : '\0');
    if (!view.is_valid(row)) return;
  }
  switch (f.layout) {
    case Layout::kNull:
      break;
    case Layout::kFixed:
      out->append(reinterpret_cast<const char*>(view.values()) +
                      static_cast<uint64_t>(row) * f.width,
                  f.width);
      break;
    case Layout::kBool:
      out->push_back(view.bool_at(row) ? '\1' : '\0');
      break;
    case Layout::kBytes: {
      const std::string_view s = view.bytes_at(row);
      put_u64(s.size(), out);
      out->append(s);
      break;
    }
    case Layout::kList: {
      int64_t begin = 0, size = 0;
      view.list_at(row, &begin, &size);
      put_u64(static_cast<uint64_t>(size), out);
      for (int64_t i = 0; i < size; ++i) {
        append_value(view.children()[0], begin + i, out);
      }
      break;
    }
    case Layout::kFixedList:
      for (int32_t i = 0; i < f.list_size; ++i) {
        append_value(view.children()[0], view.child_row(row) + i, out);
      }
      break;
    case Layout::kStruct:
      for (const ArrayView& c : view.children()) {
        append_value(c, view.child_row(row), out);
      }
      break;
    case Layout::kDictionary:
      append_value(view.dictionary(), view.code_at(row), out);
      break;
    case Layout::kRunEnd:
      append_value(view.children()[1], view.run_of(row), out);
      break;
    case Layout::kUnion: {
      const int c = view.union_child(row);
      out->push_back(static_cast<char>(c));
      if (c >= 0) {
        append_value(view.children()[static_cast<size_t>(c)],
                     view.union_row(row), out);
      }
      break;
    }
  }
}

}  // namespace

Result<const std::vector<int64_t>*> DictionaryValues::map(
    const ArrayView& dictionary, const std::string& path) {
  map_.clear();
  std::string key;
  const bool first = values.length() == 0;
  // Does this dictionary begin as the values do? Then codes stay as they are.
  bool same = true;
  for (int64_t i = 0; i < dictionary.length(); ++i) {
    key.clear();
    append_value(dictionary, i, &key);
    const auto next = static_cast<int64_t>(first_equal_.size());
    const auto [it, added] = places_.try_emplace(key, next);
    if (added || first) {
      first_equal_.push_back(it->second);
      NIMBLE_RETURN_IF_ERROR(
          values.append(dictionary, i, 1, path + ".dictionary"));
    }
    same = same && static_cast<size_t>(i) < first_equal_.size() &&
           first_equal_[static_cast<size_t>(i)] == it->second;
    map_.push_back(it->second);
  }
  if (same) {
    for (size_t i = 0; i < map_.size(); ++i) map_[i] = static_cast<int64_t>(i);
  }
  return &map_;
}

}  // namespace nimble
