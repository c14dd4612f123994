// ServingManifest: one snapshot of a table, in the form that a server reads.
// Its bytes are a 16-byte header and a FlatBuffer
// (schemas/serving_manifest.fbs).
// docs/format/serving_manifest.md.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nimble/base/bytes.h"
#include "nimble/base/result.h"
#include "nimble/base/row_bitmap.h"
#include "nimble/key/key_column.h"

namespace nimble {

// The key of an index, and bounds of each file's keys.
struct ServedKey {
  std::vector<KeyColumnSpec> columns;  // paths in the manifest's schema
  std::vector<std::string> lower, upper;
};

// The value of a column that a file does not have, in the format of FlatValue.
// nullopt stands for null.
struct ServedConstant {
  uint32_t column = 0;
  std::optional<std::string> value;
};

struct ServedFile {
  std::string path;
  uint64_t size = 0;
  uint64_t rows = 0;
  std::vector<ServedConstant> constants;
  std::shared_ptr<const RowBitmap> deleted;  // null: no row is deleted
};

struct ServingManifest {
  std::string name;
  std::string uuid;
  std::optional<int64_t> snapshot;
  uint64_t created_ms = 0;
  // Checksum of the bytes. Set by parse(), so that two manifests differ.
  uint64_t checksum = 0;
  Field schema;  // the root struct
  std::vector<ServedConstant> defaults;
  std::optional<ServedKey> lookup_key, cluster_key;
  bool has_primary_key = false;
  std::vector<ServedFile> files;

  // Returns the bytes of a manifest, which parse() reads.
  std::vector<uint8_t> serialize() const;
  // Parses untrusted bytes. Fails unless the checksum is right and all parts
  // are consistent.
  static Result<ServingManifest> parse(ByteSpan bytes);
  // Reads and parses a file. May block.
  static Result<ServingManifest> read(const std::string& path);
};

}  // namespace nimble
