#include "nimble/types/field.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>

namespace nimble {
namespace {

// Maximum depth of types, so that hostile schemas cannot exhaust the stack. It
// is the maximum that Arrow C++ imports.
constexpr int kMaxTypeDepth = 63;

struct Primitive {
  char code;
  Logical logical;
  uint32_t width;
  bool is_signed;
  const char* name;
};
constexpr Primitive kPrimitives[] = {
    {'c', Logical::kInt, 1, true, "int8"},
    {'C', Logical::kInt, 1, false, "uint8"},
    {'s', Logical::kInt, 2, true, "int16"},
    {'S', Logical::kInt, 2, false, "uint16"},
    {'i', Logical::kInt, 4, true, "int32"},
    {'I', Logical::kInt, 4, false, "uint32"},
    {'l', Logical::kInt, 8, true, "int64"},
    {'L', Logical::kInt, 8, false, "uint64"},
    {'e', Logical::kFloat, 2, true, "float16"},
    {'f', Logical::kFloat, 4, true, "float32"},
    {'g', Logical::kFloat, 8, true, "float64"},
};

bool parse_int(std::string_view text, int64_t* out) {
  const auto r = std::from_chars(text.data(), text.data() + text.size(), *out);
  return r.ec == std::errc() && r.ptr == text.data() + text.size();
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> out;
  if (text.empty()) return out;
  for (size_t at = 0;;) {
    const size_t comma = text.find(',', at);
    out.push_back(text.substr(at, comma - at));
    if (comma == std::string_view::npos) return out;
    at = comma + 1;
  }
}

void set(Field* f, Layout layout, Logical logical, uint32_t width,
         bool is_signed) {
  f->layout = layout;
  f->logical = logical;
  f->width = width;
  f->is_signed = is_signed;
}

bool resolve_decimal(Field* f, std::string_view args) {
  const auto parts = split(args);
  int64_t precision = 0, scale = 0, bits = 128;
  if (parts.size() < 2 || parts.size() > 3 ||
      !parse_int(parts[0], &precision) || !parse_int(parts[1], &scale) ||
      (parts.size() == 3 && !parse_int(parts[2], &bits))) {
    return false;
  }
  if (bits != 32 && bits != 64 && bits != 128 && bits != 256) return false;
  set(f, Layout::kFixed, Logical::kDecimal, static_cast<uint32_t>(bits / 8),
      true);
  return true;
}

bool resolve_temporal(Field* f, std::string_view s) {
  if (s == "tdD") return set(f, Layout::kFixed, Logical::kDate, 4, true), true;
  if (s == "tdm") return set(f, Layout::kFixed, Logical::kDate, 8, true), true;
  if (s == "tts" || s == "ttm") {
    return set(f, Layout::kFixed, Logical::kTime, 4, true), true;
  }
  if (s == "ttu" || s == "ttn") {
    return set(f, Layout::kFixed, Logical::kTime, 8, true), true;
  }
  if (s == "tDs" || s == "tDm" || s == "tDu" || s == "tDn") {
    return set(f, Layout::kFixed, Logical::kDuration, 8, true), true;
  }
  if (s == "tiM") {
    return set(f, Layout::kFixed, Logical::kInterval, 4, true), true;
  }
  if (s == "tiD") {
    return set(f, Layout::kFixed, Logical::kInterval, 8, false), true;
  }
  if (s == "tin") {
    return set(f, Layout::kFixed, Logical::kInterval, 16, false), true;
  }
  if (s.size() >= 4 && s.substr(0, 2) == "ts" && s[3] == ':' &&
      std::strchr("smun", s[2]) != nullptr) {
    return set(f, Layout::kFixed, Logical::kTimestamp, 8, true), true;
  }
  return false;
}

bool resolve_bytes(Field* f, std::string_view s) {
  const bool text = s == "u" || s == "U" || s == "vu";
  const bool binary = s == "z" || s == "Z" || s == "vz";
  if (!text && !binary) return false;
  set(f, Layout::kBytes, text ? Logical::kText : Logical::kBinary, 0, false);
  f->wide_offsets = s == "U" || s == "Z";
  f->is_view = s[0] == 'v';
  return true;
}

bool is_run_end_type(const Field& f) {
  return f.dictionary.empty() &&
         (f.format == "s" || f.format == "i" || f.format == "l");
}

bool resolve_nested(Field* f, std::string_view s) {
  size_t want_children = 1;
  set(f, Layout::kList, Logical::kNested, 0, false);
  if (s == "+l" || s == "+L" || s == "+vl" || s == "+vL") {
    f->is_view = s[1] == 'v';
    f->wide_offsets = s.back() == 'L';
  } else if (s == "+m") {
    f->is_map = true;
    if (f->children.size() == 1 && (f->children[0].format != "+s" ||
                                    f->children[0].children.size() != 2)) {
      return false;
    }
  } else if (s == "+s") {
    f->layout = Layout::kStruct;
    want_children = f->children.size();
  } else if (s == "+r") {
    f->layout = Layout::kRunEnd;
    want_children = 2;
    if (f->children.size() == 2 && !is_run_end_type(f->children[0])) {
      return false;
    }
  } else if (s.substr(0, 3) == "+w:") {
    f->layout = Layout::kFixedList;
    int64_t n = 0;
    if (!parse_int(s.substr(3), &n) || n < 0 || n > INT32_MAX) return false;
    f->list_size = static_cast<int32_t>(n);
  } else if (s.substr(0, 4) == "+ud:" || s.substr(0, 4) == "+us:") {
    f->layout = Layout::kUnion;
    f->is_dense_union = s[2] == 'd';
    for (std::string_view id : split(s.substr(4))) {
      int64_t v = 0;
      if (!parse_int(id, &v) || v < 0 || v > 127) return false;
      const auto type_id = static_cast<int8_t>(v);
      if (std::count(f->type_ids.begin(), f->type_ids.end(), type_id) > 0) {
        return false;
      }
      f->type_ids.push_back(type_id);
    }
    want_children = f->type_ids.size();
  } else {
    return false;
  }
  return f->children.size() == want_children;
}

bool resolve_node(Field* f) {
  const std::string_view s = f->format;
  if (s.empty()) return false;
  if (!f->dictionary.empty()) {
    for (const Primitive& p : kPrimitives) {
      if (s.size() == 1 && s[0] == p.code && p.logical == Logical::kInt) {
        set(f, Layout::kDictionary, Logical::kDictionary, p.width, p.is_signed);
        return f->children.empty();
      }
    }
    return false;
  }
  if (s[0] == '+') return resolve_nested(f, s);
  if (!f->children.empty()) return false;
  if (s == "n") return set(f, Layout::kNull, Logical::kNull, 0, false), true;
  if (s == "b") return set(f, Layout::kBool, Logical::kBool, 0, false), true;
  for (const Primitive& p : kPrimitives) {
    if (s.size() == 1 && s[0] == p.code) {
      return set(f, Layout::kFixed, p.logical, p.width, p.is_signed), true;
    }
  }
  if (s.substr(0, 2) == "d:") return resolve_decimal(f, s.substr(2));
  if (s.substr(0, 2) == "w:") {
    int64_t n = 0;
    if (!parse_int(s.substr(2), &n) || n < 0 || n > INT32_MAX) return false;
    set(f, Layout::kFixed, Logical::kFixedBinary, static_cast<uint32_t>(n),
        false);
    return true;
  }
  return resolve_bytes(f, s) || resolve_temporal(f, s);
}

Status resolve_tree(Field* f, const std::string& path, int depth) {
  if (depth > kMaxTypeDepth) {
    return Status::unsupported("column '" + path +
                               "': types nest deeper than " +
                               std::to_string(kMaxTypeDepth));
  }
  f->wide_offsets = f->is_view = f->is_map = f->is_dense_union = false;
  f->list_size = 0;
  f->type_ids.clear();
  for (Field& child : f->children) {
    NIMBLE_RETURN_IF_ERROR(resolve_tree(
        &child, path.empty() ? child.name : path + "." + child.name,
        depth + 1));
  }
  for (Field& d : f->dictionary) {
    NIMBLE_RETURN_IF_ERROR(resolve_tree(&d, path + ".dictionary", depth + 1));
  }
  if (!resolve_node(f)) {
    return Status::unsupported(
        "column '" + path + "': the Arrow type '" + f->format + "' with " +
        std::to_string(f->children.size()) + " children is not supported");
  }
  return Status::ok();
}

// The C interface packs metadata as int32 counts and lengths.
std::vector<std::pair<std::string, std::string>> unpack_metadata(
    const char* p) {
  std::vector<std::pair<std::string, std::string>> out;
  if (p == nullptr) return out;
  const auto get_int = [&p] {
    int32_t v;
    std::memcpy(&v, p, 4);
    p += 4;
    return v;
  };
  const auto get_text = [&p, &get_int] {
    const auto n = static_cast<size_t>(get_int());
    std::string s(p, n);
    p += n;
    return s;
  };
  const int32_t n = get_int();
  for (int32_t i = 0; i < n; ++i) {
    std::string key = get_text();
    out.emplace_back(std::move(key), get_text());
  }
  return out;
}

std::string pack_metadata(
    const std::vector<std::pair<std::string, std::string>>& metadata) {
  std::string out;
  const auto put_int = [&out](size_t v) {
    const auto n = static_cast<int32_t>(v);
    out.append(reinterpret_cast<const char*>(&n), 4);
  };
  put_int(metadata.size());
  for (const auto& [key, value] : metadata) {
    put_int(key.size());
    out += key;
    put_int(value.size());
    out += value;
  }
  return out;
}

Result<Field> import_tree(const ArrowSchema& s, int depth,
                          const std::string& column) {
  if (depth > kMaxTypeDepth) {
    return Status::unsupported("column '" + column +
                               "': types nest deeper than " +
                               std::to_string(kMaxTypeDepth));
  }
  Field f;
  f.name = s.name != nullptr ? s.name : "";
  const std::string& owner = depth == 1 ? f.name : column;
  f.format = s.format != nullptr ? s.format : "";
  f.flags = s.flags;
  f.metadata = unpack_metadata(s.metadata);
  for (int64_t i = 0; i < s.n_children; ++i) {
    NIMBLE_ASSIGN_OR_RETURN(Field child,
                            import_tree(*s.children[i], depth + 1, owner));
    f.children.push_back(std::move(child));
  }
  if (s.dictionary != nullptr) {
    NIMBLE_ASSIGN_OR_RETURN(Field d,
                            import_tree(*s.dictionary, depth + 1, owner));
    f.dictionary.push_back(std::move(d));
  }
  return f;
}

struct SchemaHolder {
  std::string name, format, metadata;
  std::vector<ArrowSchema> children;
  std::vector<ArrowSchema*> pointers;
  ArrowSchema dictionary{};
};

void release_schema(ArrowSchema* s) {
  for (int64_t i = 0; i < s->n_children; ++i) {
    if (s->children[i]->release != nullptr) {
      s->children[i]->release(s->children[i]);
    }
  }
  if (s->dictionary != nullptr && s->dictionary->release != nullptr) {
    s->dictionary->release(s->dictionary);
  }
  delete static_cast<SchemaHolder*>(s->private_data);
  s->release = nullptr;
}

}  // namespace

ValueType Field::value_type() const {
  switch (layout) {
    case Layout::kBool:
      return ValueType::boolean();
    case Layout::kBytes:
      return ValueType::bytes();
    default:
      break;
  }
  if (logical == Logical::kFloat && width >= 4)
    return ValueType::floating(width);
  if (logical == Logical::kFixedBinary) return ValueType::fixed(width);
  if (width == 1 || width == 2 || width == 4 || width == 8) {
    // Half floats are stored as bit patterns.
    const bool s = is_signed && logical != Logical::kFloat;
    return s ? ValueType::signed_int(width) : ValueType::unsigned_int(width);
  }
  return ValueType::fixed(width, is_signed);
}

Status Field::resolve(const std::string& path) {
  return resolve_tree(this, path, 0);
}

Result<Field> Field::from_arrow(const ArrowSchema& schema) {
  NIMBLE_ASSIGN_OR_RETURN(Field f, import_tree(schema, 0, ""));
  NIMBLE_RETURN_IF_ERROR(f.resolve(f.name));
  return f;
}

void export_schema(const Field& field, ArrowSchema* out) {
  auto holder = std::make_unique<SchemaHolder>();
  holder->name = field.name;
  holder->format = field.format;
  if (!field.metadata.empty()) holder->metadata = pack_metadata(field.metadata);
  holder->children.resize(field.children.size());
  for (size_t i = 0; i < field.children.size(); ++i) {
    export_schema(field.children[i], &holder->children[i]);
    holder->pointers.push_back(&holder->children[i]);
  }
  *out = ArrowSchema{};
  out->format = holder->format.c_str();
  out->name = holder->name.c_str();
  out->metadata = field.metadata.empty() ? nullptr : holder->metadata.c_str();
  out->flags = field.flags;
  out->n_children = static_cast<int64_t>(holder->children.size());
  out->children = holder->pointers.empty() ? nullptr : holder->pointers.data();
  if (!field.dictionary.empty()) {
    export_schema(field.dictionary[0], &holder->dictionary);
    out->dictionary = &holder->dictionary;
  }
  out->release = release_schema;
  out->private_data = holder.release();
}

bool has_dictionary(const Field& field) {
  if (!field.dictionary.empty()) return true;
  for (const Field& c : field.children) {
    if (has_dictionary(c)) return true;
  }
  return false;
}

namespace {

Status check_storable(const Field& field, const std::string& path) {
  if (!field.dictionary.empty() && has_dictionary(field.dictionary[0])) {
    return Status::unsupported("column '" + path + "' of type " +
                               field.type_name() +
                               ": a dictionary inside a dictionary is not "
                               "supported");
  }
  if (field.layout == Layout::kRunEnd &&
      field.children[1].layout == Layout::kRunEnd) {
    return Status::unsupported("column '" + path + "' of type " +
                               field.type_name() +
                               ": run-end encoding inside run-end encoding is "
                               "not supported");
  }
  for (const Field& d : field.dictionary) {
    NIMBLE_RETURN_IF_ERROR(check_storable(d, path + ".dictionary"));
  }
  for (const Field& c : field.children) {
    NIMBLE_RETURN_IF_ERROR(
        check_storable(c, path.empty() ? c.name : path + "." + c.name));
  }
  return Status::ok();
}

}  // namespace

Status check_storable(const Field& schema) {
  return check_storable(schema, "");
}

std::string path_name(const Field& root, const ColumnPath& path) {
  std::string name;
  const Field* at = &root;
  for (const int step : path) {
    at = &at->children[static_cast<size_t>(step)];
    name += (name.empty() ? "" : ".") + at->name;
  }
  return name;
}

}  // namespace nimble
