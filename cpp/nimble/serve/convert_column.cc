#include "nimble/serve/convert_column.h"

#include <numeric>

#include "nimble/key/key_scalar.h"

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

}  // namespace

Field plain_field(const Field& field) {
  if (field.layout != Layout::kDictionary) return field;
  Field out = field.dictionary[0];
  out.name = field.name;
  out.flags = field.flags;
  out.metadata = field.metadata;
  return out;
}

Status append_converted(const Column& from, Column* out) {
  const Field& f = from.field();
  const Field& t = out->field();
  const uint64_t n = from.length();
  if (f.layout == Layout::kDictionary) {
    const Column& values = from.dictionary->values;
    const uint32_t width = f.width;
    for (uint64_t i = 0; i < n; ++i) {
      uint64_t code = 0;
      std::memcpy(&code, from.value_data() + i * width, width);
      if (!from.is_valid(i) || code >= values.length()) {
        append_constant(nullptr, 1, out);
      } else {
        out->append_rows(values, &code, 1);
      }
    }
    return Status::ok();
  }
  if (f.layout != t.layout || f.width > t.width) {
    return Status::unsupported("column '" + t.name + "': " + f.type_name() +
                               " as " + t.type_name());
  }
  if (f.layout != Layout::kFixed || f.width == t.width) {
    std::vector<uint64_t> rows(n);
    std::iota(rows.begin(), rows.end(), uint64_t{0});
    out->append_rows(from, rows.data(), n);
    return Status::ok();
  }
  append_validity(from, out);
  widen(from, out);
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
    default:
      break;
  }
  out->add_rows(rows);
}

}  // namespace nimble
