#include "nimble/serve/snapshot/serving_manifest.h"

#include "nimble/base/byte_reader.h"
#include "nimble/base/hash.h"
#include "nimble/format/flat_buffer.h"
#include "nimble/format/schema_node.h"
#include "nimble/io/local_file.h"
#include "nimble/memory/byte_buffer.h"
#include "serving_manifest_generated.h"

namespace nimble {
namespace {

using ManifestBuilder = flatbuffers::FlatBufferBuilder;
template <class T>
using FbTables = flatbuffers::Vector<flatbuffers::Offset<T>>;
using FbLongs = flatbuffers::Vector<uint64_t>;

// Header: the magic, then the XXH3-64 of the FlatBuffer that follows.
constexpr std::string_view kManifestMagic = "NPYSERV1";
constexpr size_t kManifestHeader = 16;
// A larger file is not a manifest.
constexpr uint64_t kMaxManifestBytes = uint64_t{1} << 31;

flatbuffers::Offset<FbTables<fb::ServedConstant>> put_constants(
    ManifestBuilder* b, const std::vector<ServedConstant>& constants) {
  std::vector<flatbuffers::Offset<fb::ServedConstant>> out;
  for (const ServedConstant& c : constants) {
    flatbuffers::Offset<FbBytes> value;
    if (c.value) value = put_text(b, *c.value);
    out.push_back(fb::CreateServedConstant(*b, c.column, value));
  }
  return b->CreateVector(out);
}

flatbuffers::Offset<fb::ServedKey> put_key(
    ManifestBuilder* b, const std::optional<ServedKey>& key) {
  if (!key) return 0;
  const auto columns = put_key_columns(b, key->columns);
  const auto put_bounds = [&](const std::vector<std::string>& bounds) {
    std::string all;
    std::vector<uint64_t> ends;
    for (const std::string& bound : bounds) {
      all += bound;
      ends.push_back(all.size());
    }
    const auto bytes = put_text(b, all);
    return std::pair(bytes, b->CreateVector(ends));
  };
  const auto [lower, lower_ends] = put_bounds(key->lower);
  const auto [upper, upper_ends] = put_bounds(key->upper);
  return fb::CreateServedKey(*b, columns, lower, lower_ends, upper, upper_ends);
}

flatbuffers::Offset<fb::ServedFile> put_file(ManifestBuilder* b,
                                             const ServedFile& file) {
  const auto path = put_text(b, file.path);
  const auto constants = put_constants(b, file.constants);
  ByteBuffer gaps;
  std::vector<uint64_t> rows;
  if (file.deleted != nullptr) file.deleted->append_rows(&rows);
  uint64_t next = 0;
  for (const uint64_t row : rows) {
    gaps.put_varint(row - next);
    next = row + 1;
  }
  const auto deleted = b->CreateVector(gaps.data(), gaps.size());
  return fb::CreateServedFile(*b, path, file.size, file.rows, constants,
                              rows.size(), deleted);
}

Status get_constants(const FbTables<fb::ServedConstant>* constants,
                     const Field& schema, std::vector<ServedConstant>* out) {
  if (constants == nullptr) return Status::ok();
  for (const fb::ServedConstant* c : *constants) {
    if (c->column() >= schema.children.size()) {
      return Status::corrupt(
          "a constant for column " + std::to_string(c->column()) +
          ", but there are only " + std::to_string(schema.children.size()) +
          " columns");
    }
    ServedConstant constant{c->column(), std::nullopt};
    if (c->value() != nullptr) {
      const Field& field = schema.children[c->column()];
      const uint32_t size = c->value()->size();
      const bool fits =
          field.layout == Layout::kBytes ||
          (field.layout == Layout::kFixed && size == field.width) ||
          (field.layout == Layout::kBool && size == 1);
      if (!fits) {
        return Status::corrupt("a constant of " + std::to_string(size) +
                               " bytes for column '" + field.name + "' (" +
                               field.type_name() + ")");
      }
      constant.value = get_text(c->value());
    }
    out->push_back(std::move(constant));
  }
  return Status::ok();
}

Status get_bounds(const FbBytes* bytes, const FbLongs* ends, size_t num_files,
                  std::vector<std::string>* out) {
  const uint64_t total = bytes == nullptr ? 0 : bytes->size();
  if (ends == nullptr || ends->size() != num_files || !is_aligned(ends)) {
    return Status::corrupt("expected one key bound for each of " +
                           std::to_string(num_files) + " files");
  }
  uint64_t begin = 0;
  for (const uint64_t end : *ends) {
    if (end < begin || end > total) {
      return Status::corrupt("a key bound begins at byte " +
                             std::to_string(begin) + " and ends at byte " +
                             std::to_string(end) + " of " +
                             std::to_string(total));
    }
    out->emplace_back(as_string({bytes->data() + begin, end - begin}));
    begin = end;
  }
  return Status::ok();
}

Result<std::optional<ServedKey>> get_key(const fb::ServedKey* key,
                                         const Field& schema,
                                         size_t num_files) {
  if (key == nullptr) return std::optional<ServedKey>();
  ServedKey out;
  NIMBLE_ASSIGN_OR_RETURN(
      out.columns, get_key_columns(key->columns(), schema, "serving manifest"));
  for (const KeyColumnSpec& column : out.columns) {
    // Resolving fails for types without an order.
    NIMBLE_ASSIGN_OR_RETURN([[maybe_unused]] const KeyColumn resolved,
                            resolve_key_column(schema, column));
  }
  NIMBLE_RETURN_IF_ERROR(
      get_bounds(key->lower_bytes(), key->lower_ends(), num_files, &out.lower));
  NIMBLE_RETURN_IF_ERROR(
      get_bounds(key->upper_bytes(), key->upper_ends(), num_files, &out.upper));
  return std::optional<ServedKey>(std::move(out));
}

Result<ServedFile> get_file(const fb::ServedFile& file, const Field& schema) {
  ServedFile out;
  out.path = get_text(file.path());
  out.size = file.size();
  out.rows = file.rows();
  if (out.path.empty() || out.path[0] != '/' ||
      out.path.find('\0') != std::string::npos) {
    return Status::corrupt("a file's path is not absolute: '" + out.path + "'");
  }
  NIMBLE_RETURN_IF_ERROR(get_constants(file.constants(), schema, &out.constants)
                             .with_context(out.path));
  if (file.num_deleted() == 0) return out;
  const FbBytes* bytes = file.deleted();
  if (bytes == nullptr || file.num_deleted() > bytes->size()) {
    return Status::corrupt(out.path + ": " +
                           std::to_string(file.num_deleted()) +
                           " deleted rows in fewer bytes");
  }
  ByteReader gaps(ByteSpan(bytes->data(), bytes->size()));
  std::vector<uint64_t> rows;
  rows.reserve(file.num_deleted());
  for (uint64_t next = 0; rows.size() < file.num_deleted();) {
    const uint64_t gap = gaps.get_varint();
    if (!gaps.ok() || next >= out.rows || gap >= out.rows - next) {
      return Status::corrupt(out.path + ": a deleted row is not one of the " +
                             std::to_string(out.rows) + " rows");
    }
    rows.push_back(next + gap);
    next += gap + 1;
  }
  if (gaps.remaining() != 0) {
    return Status::corrupt(out.path + ": more deleted rows than " +
                           std::to_string(file.num_deleted()));
  }
  out.deleted = std::make_shared<const RowBitmap>(rows);
  return out;
}

Result<ServingManifest> parse_buffer(ByteSpan bytes) {
  NIMBLE_ASSIGN_OR_RETURN(const auto view,
                          FlatBufferView<fb::ServingManifest>::open(
                              bytes, fb::ServingManifestIdentifier()));
  const fb::ServingManifest& m = *view;
  ServingManifest out;
  out.name = get_text(m.name());
  out.uuid = get_text(m.uuid());
  if (m.has_snapshot()) out.snapshot = m.snapshot();
  out.created_ms = m.created_ms();
  if (m.schema() == nullptr) return Status::corrupt("no schema");
  out.schema = get_schema(*m.schema());
  NIMBLE_RETURN_IF_ERROR(out.schema.resolve(""));
  if (out.schema.layout != Layout::kStruct) {
    return Status::corrupt("the schema's root is not a struct");
  }
  if (const Status storable = check_storable(out.schema); !storable) {
    return Status::corrupt(std::string(storable.message()));
  }
  NIMBLE_RETURN_IF_ERROR(
      get_constants(m.defaults(), out.schema, &out.defaults));
  const size_t num_files = m.files() == nullptr ? 0 : m.files()->size();
  NIMBLE_ASSIGN_OR_RETURN(out.lookup_key,
                          get_key(m.lookup_key(), out.schema, num_files));
  NIMBLE_ASSIGN_OR_RETURN(out.cluster_key,
                          get_key(m.cluster_key(), out.schema, num_files));
  out.has_primary_key = m.primary_key();
  for (size_t i = 0; i < num_files; ++i) {
    NIMBLE_ASSIGN_OR_RETURN(
        ServedFile file,
        get_file(*m.files()->Get(static_cast<uint32_t>(i)), out.schema));
    out.files.push_back(std::move(file));
  }
  return out;
}

}  // namespace

std::vector<uint8_t> ServingManifest::serialize() const {
  ManifestBuilder b;
  const auto name_v = put_text(&b, name);
  const auto uuid_v = put_text(&b, uuid);
  const auto schema_v = put_schema(&b, schema);
  const auto defaults_v = put_constants(&b, defaults);
  const auto lookup_v = put_key(&b, lookup_key);
  const auto cluster_v = put_key(&b, cluster_key);
  std::vector<flatbuffers::Offset<fb::ServedFile>> file_refs;
  for (const ServedFile& file : files) file_refs.push_back(put_file(&b, file));
  const auto files_v = b.CreateVector(file_refs);
  fb::FinishServingManifestBuffer(
      b, fb::CreateServingManifest(b, name_v, uuid_v, snapshot.has_value(),
                                   snapshot.value_or(0), created_ms, schema_v,
                                   defaults_v, lookup_v, cluster_v, files_v,
                                   has_primary_key));
  const ByteSpan buffer(b.GetBufferPointer(), b.GetSize());
  ByteBuffer out;
  out.put_bytes(as_bytes(kManifestMagic));
  out.put<uint64_t>(checksum64(buffer));
  out.put_bytes(buffer);
  return out.take();
}

Result<ServingManifest> ServingManifest::parse(ByteSpan bytes) {
  const auto failed = [](Status status) {
    return std::move(status).with_context("serving manifest");
  };
  if (bytes.size() < kManifestHeader ||
      as_string(bytes.first(kManifestMagic.size())) != kManifestMagic) {
    return failed(Status::corrupt("it does not begin with " +
                                  std::string(kManifestMagic)));
  }
  const ByteSpan buffer = bytes.subspan(kManifestHeader);
  const uint64_t checksum = checksum64(buffer);
  if (load<uint64_t>(&bytes[kManifestMagic.size()]) != checksum) {
    return failed(Status::corrupt("the checksum of " +
                                  std::to_string(buffer.size()) +
                                  " bytes is wrong"));
  }
  Result<ServingManifest> out = parse_buffer(buffer);
  if (!out) return failed(std::move(out).error());
  out->checksum = checksum;
  return out;
}

Result<ServingManifest> ServingManifest::read(const std::string& path) {
  NIMBLE_ASSIGN_OR_RETURN(const auto file, LocalFile::open(path, false));
  if (file->size() > kMaxManifestBytes) {
    return Status::corrupt(path + ": " + std::to_string(file->size()) +
                           " bytes are too many for a serving manifest");
  }
  std::vector<uint8_t> bytes(file->size());
  NIMBLE_RETURN_IF_ERROR(file->read_at({0, bytes.size(), bytes.data()}));
  Result<ServingManifest> out = parse(bytes);
  if (!out) return std::move(out).error().with_context(path);
  return out;
}

}  // namespace nimble
