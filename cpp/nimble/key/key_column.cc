#include "nimble/key/key_column.h"

namespace nimble {
namespace {

const Field& values_of(const Field& f) {
  return f.layout == Layout::kDictionary && !f.dictionary.empty()
             ? f.dictionary[0]
             : f;
}

bool set(KeyKind value, KeyKind* kind) {
  *kind = value;
  return true;
}

}  // namespace

size_t KeyColumn::size_in(ByteSpan key) const {
  if (key.empty()) return 0;
  if (is_fixed() || key[0] != value_marker()) {
    const size_t size = 1 + width;
    return size <= key.size() ? size : 0;
  }
  for (size_t i = 1; i < key.size(); ++i) {
    const auto b = static_cast<uint8_t>(key[i] ^ inversion());
    if (b == 0) return i + 1;
    if (b == 1) ++i;  // skip the escaped byte
  }
  return 0;
}

bool classify_key(const Field& field, KeyKind* kind, uint32_t* width) {
  const Field& f = values_of(field);
  *width = f.width;
  switch (f.logical) {
    case Logical::kBool:
      *width = 1;
      return set(KeyKind::kBool, kind);
    case Logical::kInt:
      return set(f.is_signed ? KeyKind::kSigned : KeyKind::kUnsigned, kind);
    case Logical::kDate:
    case Logical::kTime:
    case Logical::kTimestamp:
    case Logical::kDuration:
      return set(KeyKind::kSigned, kind);
    case Logical::kDecimal:
      return set(f.width > 8 ? KeyKind::kWide : KeyKind::kSigned, kind);
    case Logical::kFloat:
      return set(KeyKind::kFloat, kind);
    case Logical::kFixedBinary:
      return set(KeyKind::kFixedBytes, kind);
    case Logical::kText:
    case Logical::kBinary:
      *width = 0;
      return set(KeyKind::kBytes, kind);
    default:
      return false;
  }
}

Result<KeyColumn> resolve_key_column(const Field& root,
                                     const KeyColumnSpec& spec) {
  KeyColumn out;
  out.path = spec.path;
  out.order = spec.order;
  const Field* at = &root;
  for (const int i : spec.path) {
    if (at->layout != Layout::kStruct || i < 0 ||
        static_cast<size_t>(i) >= at->children.size()) {
      return Status::invalid_argument(
          "the path of a key column does not exist below '" + out.name + "'");
    }
    at = &at->children[static_cast<size_t>(i)];
    out.name += out.name.empty() ? at->name : "." + at->name;
  }
  if (spec.path.empty() || !classify_key(*at, &out.kind, &out.width)) {
    return Status::unsupported("column '" + out.name + "' of type " +
                               at->type_name() +
                               " has no order and cannot be part of a key");
  }
  out.format = values_of(*at).format;
  out.logical = values_of(*at).logical;
  return out;
}

}  // namespace nimble
