#include "nimble/serve/batch/feature_vectors.h"

namespace nimble {
namespace {

// Wire types of protobuf.
constexpr uint32_t kVarint = 0;
constexpr uint32_t kEightBytes = 1;
constexpr uint32_t kSized = 2;
constexpr uint32_t kFourBytes = 5;

// The field `results` of a GetOnlineFeaturesResponse.
constexpr uint32_t kResults = 2;
// The field `values` of a FeatureVector, and `val` of the messages of lists.
constexpr uint32_t kFirstField = 1;

void append_varint(uint64_t v, std::string* out) {
  char bytes[10];
  size_t n = 0;
  for (; v >= 0x80; v >>= 7) bytes[n++] = static_cast<char>(v | 0x80);
  bytes[n++] = static_cast<char>(v);
  out->append(bytes, n);
}

void append_tag(uint32_t field, uint32_t wire_type, std::string* out) {
  append_varint(uint64_t{field} << 3 | wire_type, out);
}

void append_sized(uint32_t field, std::string_view bytes, std::string* out) {
  append_tag(field, kSized, out);
  append_varint(bytes.size(), out);
  out->append(bytes);
}

uint32_t wire_type_of(const Field& field) {
  if (field.layout == Layout::kBytes) return kSized;
  if (field.logical != Logical::kFloat) return kVarint;
  return field.width == 8 ? kEightBytes : kFourBytes;
}

// Appends a value without its tag.
void append_value(const ArrayView& column, int64_t row, std::string* out) {
  const Field& field = column.field();
  switch (field.layout) {
    case Layout::kBool:
      out->push_back(column.bool_at(row) ? '\1' : '\0');
      return;
    case Layout::kBytes: {
      const std::string_view bytes = column.bytes_at(row);
      append_varint(bytes.size(), out);
      out->append(bytes);
      return;
    }
    default:
      break;
  }
  const uint8_t* const at =
      column.values() + static_cast<uint64_t>(row) * field.width;
  if (field.logical == Logical::kFloat) {
    out->append(reinterpret_cast<const char*>(at), field.width);
  } else if (field.width == 4) {
    append_varint(
        static_cast<uint64_t>(static_cast<int64_t>(load<int32_t>(at))), out);
  } else {
    append_varint(load<uint64_t>(at), out);
  }
}

// Appends the message of a list, such as Int64List.
void append_list(const ArrayView& column, int64_t row, std::string* out) {
  const ArrayView& items = column.children()[0];
  int64_t begin = 0, size = 0;
  column.list_at(row, &begin, &size);
  if (items.field().layout == Layout::kBytes) {
    for (int64_t i = begin; i < begin + size; ++i) {
      append_sized(kFirstField, items.bytes_at(i), out);
    }
  } else if (size > 0) {
    std::string packed;
    for (int64_t i = begin; i < begin + size; ++i) {
      append_value(items, i, &packed);
    }
    append_sized(kFirstField, packed, out);
  }
}

bool is_scalar(const Field& field) {
  switch (field.logical) {
    case Logical::kInt:
      return field.is_signed && field.width >= 4;
    case Logical::kFloat:
      return field.width >= 4;
    case Logical::kBool:
      return field.layout == Layout::kBool;
    case Logical::kText:
    case Logical::kBinary:
      return field.layout == Layout::kBytes;
    default:
      return false;
  }
}

}  // namespace

Status append_feature_vector(const ArrayView& column, uint32_t number,
                             std::span<const int64_t> rows,
                             std::string_view rest, std::string* out) {
  const Field& field = column.field();
  const bool is_list = field.layout == Layout::kList;
  const Field& values = is_list ? field.children[0] : field;
  if (!is_scalar(values) || (number == 0 && field.layout != Layout::kBytes)) {
    return Status::unsupported("feature '" + field.name + "' has the type " +
                               field.type_name() +
                               ", which cannot be sent as a feature vector");
  }
  std::string vector, value, list;
  for (const int64_t row : rows) {
    if (row == kNoRow || !column.is_valid(row)) {
      append_sized(kFirstField, {}, &vector);
      continue;
    }
    value.clear();
    if (number == 0) {
      value = column.bytes_at(row);
    } else if (is_list) {
      list.clear();
      append_list(column, row, &list);
      append_sized(number, list, &value);
    } else {
      append_tag(number, wire_type_of(field), &value);
      append_value(column, row, &value);
    }
    append_sized(kFirstField, value, &vector);
  }
  append_tag(kResults, kSized, out);
  append_varint(vector.size() + rest.size(), out);
  out->append(vector).append(rest);
  return Status::ok();
}

}  // namespace nimble
