#include "nimble/column/value_key.h"

namespace nimble {
namespace {

void put_u64(uint64_t v, std::string* out) {
  out->append(reinterpret_cast<const char*>(&v), 8);
}

}  // namespace

void append_value_key(const ArrayView& view, int64_t row, std::string* out) {
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
        append_value_key(view.children()[0], begin + i, out);
      }
      break;
    }
    case Layout::kFixedList:
      for (int32_t i = 0; i < f.list_size; ++i) {
        append_value_key(view.children()[0], view.child_row(row) + i, out);
      }
      break;
    case Layout::kStruct:
      for (const ArrayView& c : view.children()) {
        append_value_key(c, view.child_row(row), out);
      }
      break;
    case Layout::kDictionary:
      append_value_key(view.dictionary(), view.code_at(row), out);
      break;
    case Layout::kRunEnd:
      append_value_key(view.children()[1], view.run_of(row), out);
      break;
    case Layout::kUnion: {
      const int c = view.union_child(row);
      out->push_back(static_cast<char>(c));
      if (c >= 0) {
        append_value_key(view.children()[static_cast<size_t>(c)],
                         view.union_row(row), out);
      }
      break;
    }
  }
}

}  // namespace nimble
