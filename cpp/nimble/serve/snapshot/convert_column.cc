#include "nimble/serve/snapshot/convert_column.h"

#include <numeric>

#include "nimble/key/key_scalar.h"
#include "nimble/serve/snapshot/opened_file.h"

namespace nimble {
namespace {

// Appends the validity of rows without their values.
void append_validity(const Column& from, Column* out) {
  const uint64_t n = from.length();
  if (from.validity.size() == 0 && out->validity.size() == 0) return;
  out->ensure_validity();
  out->validity.resize((out->length() + n) / 8 + 1);
  for (uint64_t i = 0; i < n; ++i) {
    put_bit(out->validity.data(), out->length() + i, from.is_valid(i));
  }
  out->add_nulls(from.null_count());
}

double load_float(const uint8_t* p, uint32_t width) {
  if (width == 2) return half_to_double(load<uint16_t>(p));
  return width == 4 ? static_cast<double>(load<float>(p)) : load<double>(p);
}

void widen(const Column& from, Column* out) {
  const Field& f = from.field();
  const Field& t = out->field();
  const uint64_t n = from.length();
  uint8_t* to = out->extend_values(n);
  const uint8_t* p = from.value_data();
  for (uint64_t i = 0; i < n; ++i, p += f.width, to += t.width) {
    if (f.logical == Logical::kFloat) {
      const double v = load_float(p, f.width);
      if (t.width == 4) {
        store<float>(to, static_cast<float>(v));
      } else {
        store<double>(to, v);
      }
      continue;
    }
    // Little-endian: the value, then its sign.
    std::memcpy(to, p, f.width);
    const bool is_signed = f.is_signed || f.logical == Logical::kDecimal;
    const bool is_negative = is_signed && (p[f.width - 1] & 0x80) != 0;
    std::memset(to + f.width, is_negative ? 0xff : 0, t.width - f.width);
  }
}

// Appends all rows.
void append_all(const Column& from, Column* out) {
  std::vector<uint64_t> rows(from.length());
  std::iota(rows.begin(), rows.end(), uint64_t{0});
  out->append_rows(from, rows.data(), rows.size());
}

// Appends the values of dictionary codes.
Status append_decoded(const Column& from, Column* out) {
  const uint64_t n = from.length();
  const uint32_t width = from.field().width;
  std::vector<uint64_t> codes;  // of valid rows before row i
  for (uint64_t i = 0; i < n; ++i) {
    if (!from.is_valid(i)) {
      if (!codes.empty()) {
        out->append_rows(from.dictionary->values, codes.data(), codes.size());
        codes.clear();
      }
      append_constant(nullptr, 1, out);
      continue;
    }
    uint64_t code = 0;
    std::memcpy(&code, from.value_data() + i * width, width);
    if (from.dictionary == nullptr ||
        code >= from.dictionary->values.length()) {
      return Status::corrupt("column '" + out->field().name + "': code " +
                             std::to_string(code) +
                             " is past the end of the dictionary");
    }
    codes.push_back(code);
  }
  if (!codes.empty()) {
    out->append_rows(from.dictionary->values, codes.data(), codes.size());
  }
  return Status::ok();
}

}  // namespace

Field plain_field(const Field& field) {
  Field out = field;
  if (field.layout == Layout::kDictionary) {
    out = field.dictionary[0];
    out.name = field.name;
    out.flags = field.flags;
    out.metadata = field.metadata;
  }
  for (Field& child : out.children) child = plain_field(child);
  return out;
}

Status append_converted(const Column& from, Column* out) {
  const Field& f = from.field();
  const Field& t = out->field();
  const uint64_t n = from.length();
  if (f.layout == Layout::kDictionary) return append_decoded(from, out);
  if (f.layout != t.layout || f.width > t.width) {
    return Status::unsupported("column '" + t.name + "': cannot convert " +
                               f.type_name() + " to " + t.type_name());
  }
  switch (f.layout) {
    case Layout::kFixed:
      if (f.width == t.width) {
        append_all(from, out);
        return Status::ok();
      }
      append_validity(from, out);
      widen(from, out);
      break;
    case Layout::kList: {
      append_validity(from, out);
      const int64_t shift =
          static_cast<int64_t>(out->children[0].length()) - from.ends[0];
      for (uint64_t i = 1; i <= n; ++i) {
        out->ends.push_back(from.ends[i] + shift);
      }
      NIMBLE_RETURN_IF_ERROR(
          append_converted(from.children[0], &out->children[0]));
      break;
    }
    case Layout::kFixedList:
      append_validity(from, out);
      NIMBLE_RETURN_IF_ERROR(
          append_converted(from.children[0], &out->children[0]));
      break;
    case Layout::kStruct:
      append_validity(from, out);
      for (size_t i = 0; i < t.children.size(); ++i) {
        const std::optional<size_t> at = match_field(t.children[i], f);
        if (at) {
          NIMBLE_RETURN_IF_ERROR(
              append_converted(from.children[*at], &out->children[i]));
        } else {
          append_constant(nullptr, n, &out->children[i]);
        }
      }
      break;
    case Layout::kUnion:
    case Layout::kRunEnd:
      if (has_dictionary(f)) {
        return Status::unsupported("column '" + t.name + "': cannot convert " +
                                   f.type_name() +
                                   ", which has a dictionary inside");
      }
      [[fallthrough]];
    default:
      append_all(from, out);
      return Status::ok();
  }
  out->add_rows(n);
  return Status::ok();
}

void append_constant(const std::string* value, uint64_t rows, Column* out) {
  const Field& field = out->field();
  const uint64_t before = out->length();
  if (value == nullptr || out->validity.size() > 0) {
    if (field.has_validity()) {
      out->ensure_validity();
      out->validity.resize((before + rows) / 8 + 1);
      fill_bits(out->validity.data(), before, rows, value != nullptr);
      if (value == nullptr) out->add_nulls(rows);
    }
  }
  switch (field.layout) {
    case Layout::kFixed: {
      uint8_t* to = out->extend_values(rows);
      for (uint64_t i = 0; i < rows; ++i, to += field.width) {
        if (value == nullptr) {
          std::memset(to, 0, field.width);
        } else {
          std::memcpy(to, value->data(), field.width);
        }
      }
      break;
    }
    case Layout::kBool:
      fill_bits(out->extend_bits(rows), before, rows,
                value != nullptr && (*value)[0] != 0);
      break;
    case Layout::kBytes: {
      const uint64_t first = out->bytes.add_values(rows);
      for (uint64_t i = 0; i < rows; ++i) {
        if (value != nullptr) {
          out->bytes.data.append(
              reinterpret_cast<const uint8_t*>(value->data()), value->size());
        }
        out->bytes.set_end(first + i, out->bytes.data.size());
      }
      break;
    }
    case Layout::kList:
      out->ends.resize(before + rows + 1, out->ends.back());
      break;
    case Layout::kFixedList:
      append_constant(nullptr, rows * static_cast<uint64_t>(field.list_size),
                      &out->children[0]);
      break;
    case Layout::kStruct:
      for (Column& child : out->children)
        append_constant(nullptr, rows, &child);
      break;
    case Layout::kRunEnd:
      if (rows == 0) break;
      append_constant(nullptr, 1, &out->children[0]);
      out->ends.push_back(static_cast<int64_t>(before + rows));
      break;
    case Layout::kUnion:
      // All appended rows belong to the first child.
      out->values.resize(before + rows);
      std::memset(out->values.data() + before, field.type_ids[0], rows);
      for (uint64_t i = 0; field.is_dense_union && i < rows; ++i) {
        out->ends.push_back(
            static_cast<int64_t>(out->children[0].length() + i));
      }
      for (Column& child : out->children) {
        append_constant(nullptr, rows, &child);
        if (field.is_dense_union) break;
      }
      break;
    default:
      break;
  }
  out->add_rows(rows);
}

}  // namespace nimble
