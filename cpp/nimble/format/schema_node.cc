#include "nimble/format/schema_node.h"

#include "nimble/base/bytes.h"

namespace nimble {

flatbuffers::Offset<FbBytes> put_text(flatbuffers::FlatBufferBuilder* b,
                                      const std::string& s) {
  return b->CreateVector(reinterpret_cast<const uint8_t*>(s.data()), s.size());
}

flatbuffers::Offset<FbMetadata> put_metadata(flatbuffers::FlatBufferBuilder* b,
                                             const FieldMetadata& metadata) {
  std::vector<flatbuffers::Offset<fb::KeyValue>> out;
  for (const auto& [key, value] : metadata) {
    const auto k = put_text(b, key);
    const auto v = put_text(b, value);
    out.push_back(fb::CreateKeyValue(*b, k, v));
  }
  return b->CreateVector(out);
}

std::string get_text(const FbBytes* v) {
  return v == nullptr ? std::string()
                      : std::string(as_string({v->data(), v->size()}));
}

FieldMetadata get_metadata(const FbMetadata* v) {
  FieldMetadata out;
  if (v == nullptr) return out;
  for (const fb::KeyValue* kv : *v) {
    out.emplace_back(get_text(kv->key()), get_text(kv->value()));
  }
  return out;
}

flatbuffers::Offset<fb::SchemaNode> put_schema(
    flatbuffers::FlatBufferBuilder* b, const Field& f) {
  std::vector<flatbuffers::Offset<fb::SchemaNode>> children;
  for (const Field& c : f.children) children.push_back(put_schema(b, c));
  flatbuffers::Offset<fb::SchemaNode> dictionary;
  if (!f.dictionary.empty()) dictionary = put_schema(b, f.dictionary[0]);
  const auto name = b->CreateString(f.name);
  const auto format = b->CreateString(f.format);
  const auto metadata = put_metadata(b, f.metadata);
  const auto kids = b->CreateVector(children);
  return fb::CreateSchemaNode(*b, name, format, f.flags, metadata, kids,
                              dictionary);
}

Field get_schema(const fb::SchemaNode& n) {
  Field f;
  if (n.name() != nullptr) f.name = n.name()->str();
  if (n.format() != nullptr) f.format = n.format()->str();
  f.flags = n.flags();
  f.metadata = get_metadata(n.metadata());
  if (n.children() != nullptr) {
    for (const fb::SchemaNode* c : *n.children()) {
      f.children.push_back(get_schema(*c));
    }
  }
  if (n.dictionary() != nullptr)
    f.dictionary.push_back(get_schema(*n.dictionary()));
  return f;
}

flatbuffers::Offset<FbKeyColumns> put_key_columns(
    flatbuffers::FlatBufferBuilder* b, const std::vector<KeyColumnSpec>& keys) {
  std::vector<flatbuffers::Offset<fb::KeyColumn>> columns;
  for (const KeyColumnSpec& k : keys) {
    std::vector<uint32_t> path(k.path.begin(), k.path.end());
    const auto p = b->CreateVector(path);
    columns.push_back(
        fb::CreateKeyColumn(*b, p, k.order.descending, k.order.nulls_first));
  }
  return b->CreateVector(columns);
}

Result<std::vector<KeyColumnSpec>> get_key_columns(const FbKeyColumns* columns,
                                                   const Field& schema,
                                                   const char* where) {
  std::vector<KeyColumnSpec> out;
  if (columns == nullptr || columns->size() == 0) {
    return Status::corrupt(std::string(where) +
                           ": an index has no key columns");
  }
  for (const fb::KeyColumn* k : *columns) {
    KeyColumnSpec ref;
    const Field* at = &schema;
    if (k->path() == nullptr || k->path()->size() == 0) {
      return Status::corrupt(std::string(where) + ": a key column has no path");
    }
    for (uint32_t step : *k->path()) {
      if (at->layout != Layout::kStruct || step >= at->children.size()) {
        return Status::corrupt(std::string(where) +
                               ": a key column is not in the schema");
      }
      at = &at->children[step];
      ref.path.push_back(static_cast<int>(step));
    }
    ref.order = {k->descending(), k->nulls_first()};
    out.push_back(std::move(ref));
  }
  return out;
}

}  // namespace nimble
