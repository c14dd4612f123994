// Commands of hashes: a key NAME:KEY is a row of the table NAME.
#include <numeric>

#include "nimble/serve/commands_impl.h"

namespace nimble {

Status Command::hash_all() {
  const ServedTable* table = nullptr;
  NIMBLE_ASSIGN_OR_RETURN(const auto row, find_hash(arguments_[1], &table));
  if (!row) {
    reply_->map(0);
    return Status::ok();
  }
  NIMBLE_RETURN_IF_ERROR(read_row(*table, *row, table->all_columns()));
  NIMBLE_RETURN_IF_ERROR(
      check_bytes(scratch_->row.reply_bytes() + table->name_bytes()));
  put_row(*table, scratch_->row, table->all_columns());
  return Status::ok();
}

Status Command::read_fields(Arguments names, const ServedTable& table,
                            RowAddress row) {
  // Clients often ask for the columns of the command before.
  std::vector<uint32_t>& columns = scratch_->columns;
  size_t n = 0;
  std::vector<size_t> places;  // empty if the table has all columns
  for (const std::string_view name : names) {
    std::optional<uint32_t> column;
    if (n < columns.size() && table.is_column(columns[n], name)) {
      column = columns[n];
    } else {
      column = table.find_column(name);
    }
    if (!column && places.empty()) {
      places.resize(n);
      std::iota(places.begin(), places.end(), size_t{0});
    }
    if (!column || !places.empty()) {
      places.push_back(column ? n : SIZE_MAX);
    }
    if (!column) continue;
    if (n == columns.size()) columns.push_back(0);
    columns[n++] = *column;
  }
  columns.resize(n);
  NIMBLE_RETURN_IF_ERROR(read_row(table, row, columns));
  if (columns.size() == names.size()) return Status::ok();
  std::vector<RowText::Value> values;
  for (const size_t at : places) {
    values.push_back(at == SIZE_MAX ? RowText::Value{0, 0, true}
                                    : scratch_->row.values[at]);
  }
  scratch_->row.values = std::move(values);
  return Status::ok();
}

Status Command::hash_many() {
  const ServedTable* table = nullptr;
  const Arguments names = arguments_.subspan(2);
  NIMBLE_ASSIGN_OR_RETURN(const auto row, find_hash(arguments_[1], &table));
  if (!row) {
    reply_->array(names.size());
    for (size_t i = 0; i < names.size(); ++i) reply_->null();
    return Status::ok();
  }
  NIMBLE_RETURN_IF_ERROR(read_fields(names, *table, *row));
  put_values(scratch_->row);
  return Status::ok();
}

Status Command::hash_one() {
  const ServedTable* table = nullptr;
  NIMBLE_ASSIGN_OR_RETURN(const auto row, find_hash(arguments_[1], &table));
  if (row) {
    NIMBLE_RETURN_IF_ERROR(read_fields(arguments_.subspan(2), *table, *row));
  }
  if (!row || scratch_->row.values[0].is_null) {
    reply_->null();
  } else {
    reply_->text(scratch_->row.text(0));
  }
  return Status::ok();
}

Status Command::hash_exists() {
  const ServedTable* table = nullptr;
  NIMBLE_ASSIGN_OR_RETURN(const auto row, find_hash(arguments_[1], &table));
  if (row) {
    NIMBLE_RETURN_IF_ERROR(read_fields(arguments_.subspan(2), *table, *row));
  }
  reply_->integer(row && !scratch_->row.values[0].is_null ? 1 : 0);
  return Status::ok();
}

Status Command::hash_parts(Part part) {
  const ServedTable* table = nullptr;
  NIMBLE_ASSIGN_OR_RETURN(const auto row, find_hash(arguments_[1], &table));
  RowText& text = scratch_->row;
  text.clear();
  if (row) {
    NIMBLE_RETURN_IF_ERROR(read_row(*table, *row, table->all_columns()));
  }
  size_t valid = 0;
  for (const RowText::Value& v : text.values) valid += v.is_null ? 0 : 1;
  if (part == Part::kCount) {
    reply_->integer(static_cast<int64_t>(valid));
    return Status::ok();
  }
  reply_->array(valid);
  for (size_t i = 0; i < text.values.size(); ++i) {
    if (text.values[i].is_null) continue;
    reply_->text(part == Part::kNames ? table->schema().children[i].name
                                      : text.text(i));
  }
  return Status::ok();
}

Status Command::exists() {
  NIMBLE_RETURN_IF_ERROR(check_keys(arguments_.size() - 1));
  int64_t n = 0;
  for (const std::string_view key : arguments_.subspan(1)) {
    const ServedTable* table = nullptr;
    NIMBLE_ASSIGN_OR_RETURN(const auto row, find_hash(key, &table));
    n += row ? 1 : 0;
  }
  reply_->integer(n);
  return Status::ok();
}

Status Command::type() {
  const ServedTable* table = nullptr;
  NIMBLE_ASSIGN_OR_RETURN(const auto row, find_hash(arguments_[1], &table));
  reply_->simple(row ? "hash" : "none");
  return Status::ok();
}

Status Command::ttl() {
  const ServedTable* table = nullptr;
  NIMBLE_ASSIGN_OR_RETURN(const auto row, find_hash(arguments_[1], &table));
  reply_->integer(row ? -1 : -2);  // never expires, or does not exist
  return Status::ok();
}

Status Command::hash_all_many() {
  NIMBLE_RETURN_IF_ERROR(check_keys(arguments_.size() - 1));
  std::vector<std::pair<const ServedTable*, RowText>> rows;
  uint64_t bytes = 0;
  for (const std::string_view key : arguments_.subspan(1)) {
    const ServedTable* table = nullptr;
    NIMBLE_ASSIGN_OR_RETURN(const auto row, find_hash(key, &table));
    auto& [of, text] = rows.emplace_back();
    if (!row) continue;
    of = table;
    Status status = read_text(*table, *row, table->all_columns(),
                              options_.max_reply_bytes - bytes, &text);
    // The message names the configured limit, not the bytes that remain of
    // it.
    if (status.code() == StatusCode::kTooLarge) {
      return check_bytes(UINT64_MAX);
    }
    NIMBLE_RETURN_IF_ERROR(std::move(status));
    bytes += text.reply_bytes() + table->name_bytes();
    NIMBLE_RETURN_IF_ERROR(check_bytes(bytes));
  }
  reply_->array(rows.size());
  for (const auto& [table, text] : rows) {
    if (table == nullptr) {
      reply_->map(0);
    } else {
      put_row(*table, text, table->all_columns());
    }
  }
  return Status::ok();
}

}  // namespace nimble
