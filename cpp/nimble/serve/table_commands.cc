// Commands of tables: NB.SCHEMA, NB.META, NB.TABLES.
#include <array>

#include "nimble/serve/batch/raw_rows.h"
#include "nimble/serve/commands_impl.h"

namespace nimble {
namespace {

// Options that a command accepts.
constexpr std::array kSchemaOptions = {"AS"};

}  // namespace

Status Command::describe_schema() {
  NIMBLE_ASSIGN_OR_RETURN(const ServedTable* table, known_table(arguments_[1]));
  Options options;
  NIMBLE_RETURN_IF_ERROR(read_options(*table, 2, kSchemaOptions, &options));
  if (options.as_arrow) {
    text_.clear();
    NIMBLE_RETURN_IF_ERROR(
        append_arrow_schema(*table, table->all_columns(), &text_));
    reply_->text(text_);
    return Status::ok();
  }
  const std::vector<Field>& fields = table->schema().children;
  reply_->array(fields.size());
  for (const Field& field : fields) {
    reply_->array(3);
    reply_->text(field.name);
    reply_->text(field.type_name());
    reply_->text(field.nullable() ? "null" : "not null");
  }
  return Status::ok();
}

void Command::put_key(const ServedTable& table,
                      const std::optional<ServedKey>& key) {
  reply_->array(key ? key->columns.size() : 0);
  if (!key) return;
  for (const KeyColumnSpec& column : key->columns) {
    reply_->text(path_name(table.schema(), column.path));
  }
}

Status Command::describe_table() {
  NIMBLE_ASSIGN_OR_RETURN(const ServedTable* table, known_table(arguments_[1]));
  const ServingManifest& m = table->manifest();
  reply_->map(10);
  reply_->text("table");
  reply_->text(m.name);
  reply_->text("uuid");
  reply_->text(m.uuid);
  reply_->text("snapshot");  // as text: clients read big integers as floats
  if (m.snapshot) {
    reply_->text(std::to_string(*m.snapshot));
  } else {
    reply_->null();
  }
  reply_->text("version");
  reply_->text(table->version());
  reply_->text("rows");
  reply_->integer(static_cast<int64_t>(table->num_rows()));
  reply_->text("files");
  reply_->integer(static_cast<int64_t>(m.files.size()));
  reply_->text("key");
  put_key(*table, m.lookup_key);
  reply_->text("cluster_by");
  put_key(*table, m.cluster_key);
  reply_->text("cluster_order");
  reply_->array(m.cluster_key ? m.cluster_key->columns.size() : 0);
  if (m.cluster_key) {
    for (const KeyColumnSpec& column : m.cluster_key->columns) {
      reply_->text(std::string(column.order.descending ? "desc" : "asc") +
                   (column.order.nulls_first ? " first " : " last ") +
                   path_name(table->schema(), column.path));
    }
  }
  reply_->text("created_ms");
  reply_->integer(static_cast<int64_t>(m.created_ms));
  return Status::ok();
}

Status Command::send_metadata() {
  NIMBLE_ASSIGN_OR_RETURN(const ServedTable* table, known_table(arguments_[1]));
  uint64_t checksum = 0, size = 0;
  if (!equals(arguments_[2], "FILE") || arguments_.size() % 2 == 0 ||
      !parse_count(arguments_[3], &checksum) ||
      !parse_count(arguments_[4], &size)) {
    return Status::invalid_argument(
        "NB.META: expected FILE checksum size and pairs of offset and size");
  }
  if (!options_.allow_raw) {
    return Status::invalid_argument(
        "NB.META: this server does not send "
        "parts of files");
  }
  std::vector<FilePart> parts;
  for (size_t i = 5; i < arguments_.size(); i += 2) {
    FilePart& part = parts.emplace_back();
    if (!parse_count(arguments_[i], &part.offset) ||
        !parse_count(arguments_[i + 1], &part.size)) {
      return Status::invalid_argument("NB.META: expected numbers of bytes");
    }
  }
  text_.clear();
  NIMBLE_RETURN_IF_ERROR(append_file_parts(*table, checksum, size, parts,
                                           options_.max_reply_bytes, &text_));
  reply_->text(text_);
  return Status::ok();
}

Status Command::list_tables() {
  reply_->array(tables_.size());
  for (const auto& [name, table] : tables_) reply_->text(name);
  return Status::ok();
}

}  // namespace nimble
