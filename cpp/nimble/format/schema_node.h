// Converts a schema and its key columns to and from FlatBuffers, for the footer
// of files and for serving manifests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "file_generated.h"
#include "nimble/base/result.h"
#include "nimble/key/key_column.h"

namespace nimble {

using FieldMetadata = std::vector<std::pair<std::string, std::string>>;
using FbBytes = flatbuffers::Vector<uint8_t>;
using FbKeyColumns = flatbuffers::Vector<flatbuffers::Offset<fb::KeyColumn>>;
using FbMetadata = flatbuffers::Vector<flatbuffers::Offset<fb::KeyValue>>;

flatbuffers::Offset<FbBytes> put_text(flatbuffers::FlatBufferBuilder* b,
                                      const std::string& s);
flatbuffers::Offset<FbMetadata> put_metadata(flatbuffers::FlatBufferBuilder* b,
                                             const FieldMetadata& metadata);
flatbuffers::Offset<fb::SchemaNode> put_schema(
    flatbuffers::FlatBufferBuilder* b, const Field& f);
flatbuffers::Offset<FbKeyColumns> put_key_columns(
    flatbuffers::FlatBufferBuilder* b, const std::vector<KeyColumnSpec>& keys);

// Returns an empty string for null.
std::string get_text(const FbBytes* v);
FieldMetadata get_metadata(const FbMetadata* v);
// The caller must resolve the returned field.
Field get_schema(const fb::SchemaNode& n);
// Reads the key columns of an index and checks them against the schema. `where`
// names the buffer in error messages.
Result<std::vector<KeyColumnSpec>> get_key_columns(const FbKeyColumns* columns,
                                                   const Field& schema,
                                                   const char* where);

}  // namespace nimble
