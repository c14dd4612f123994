// Commands of the rows of given keys: NB.GET, NB.MGET, NB.EXISTS, NB.COUNT. And
// how all commands read rows and answer them.
#include <algorithm>
#include <array>

#include "nimble/serve/commands_impl.h"
#include "nimble/serve/snapshot/reply_bytes.h"
#include "nimble/serve/snapshot/row_slices.h"
#include "nimble/serve/snapshot/table_rows.h"
#include "nimble/serve/snapshot/value_text.h"

namespace nimble {
namespace {

// Options that a command accepts.
constexpr std::array kGetOptions = {"COLS"};
constexpr std::array kManyOptions = {"COLS",    "KEYS", "AS",
                                     "MISSING", "ALL",  "PROBE"};

}  // namespace

Status Command::read_row(const ServedTable& table, RowAddress row,
                         std::span<const uint32_t> columns) {
  return read_text(table, row, columns, options_.max_reply_bytes,
                   &scratch_->row);
}

void Command::put_row(const ServedTable& table, const RowText& row,
                      std::span<const uint32_t> columns) {
  size_t valid = 0;
  for (const RowText::Value& v : row.values) valid += v.is_null ? 0 : 1;
  reply_->map(valid);
  for (size_t i = 0; i < columns.size(); ++i) {
    if (row.values[i].is_null) continue;
    reply_->text(table.schema().children[columns[i]].name);
    reply_->text(row.text(i));
  }
}

void Command::put_values(const RowText& row) {
  reply_->array(row.values.size());
  for (size_t i = 0; i < row.values.size(); ++i) {
    if (row.values[i].is_null) {
      reply_->null();
    } else {
      reply_->text(row.text(i));
    }
  }
}

Status Command::read_cells(const ServedTable& table,
                           std::span<const FileRange> rows, bool reverse,
                           std::span<const uint32_t> columns) {
  cells_.clear();
  text_.clear();
  uint64_t total = 0;
  for (const FileRange& r : rows) total += r.rows.size();
  const uint64_t most = options_.max_reply_bytes / kReplyValueBytes;
  if (total > most / std::max<size_t>(1, columns.size())) {
    return check_bytes(UINT64_MAX);
  }
  RowSlices slices(rows, reverse);
  SliceSize size(table.schema(), columns);
  NIMBLE_ASSIGN_OR_RETURN(const TableRows reader,
                          TableRows::create(table, rows, columns));
  Column read = reader.make_output();
  while (!slices.is_done()) {
    const size_t before = text_.size();
    const std::vector<FileRange> slice = slices.next(size.rows());
    read.clear();
    NIMBLE_RETURN_IF_ERROR(reader.append(slice, reverse, &read));
    for (uint64_t row = 0; row < read.length(); ++row) {
      for (const Column& column : read.children) {
        const size_t begin = text_.size();
        const bool is_null = is_null_row(column, row);
        if (!is_null) append_text(column, row, &text_);
        cells_.push_back({begin, text_.size() - begin, is_null});
      }
      NIMBLE_RETURN_IF_ERROR(
          check_bytes(text_.size() + kReplyValueBytes * cells_.size()));
    }
    size.add(read.length(), text_.size() - before);
  }
  return Status::ok();
}

void Command::put_cells(size_t row, size_t width) {
  reply_->array(width);
  for (size_t i = row * width; i < (row + 1) * width; ++i) {
    if (cells_[i].is_null) {
      reply_->null();
    } else {
      reply_->text(
          std::string_view(text_).substr(cells_[i].begin, cells_[i].size));
    }
  }
}

Status Command::get() {
  NIMBLE_ASSIGN_OR_RETURN(const ServedTable* table, known_table(arguments_[1]));
  Options options;
  NIMBLE_RETURN_IF_ERROR(read_options(*table, 3, kGetOptions, &options));
  NIMBLE_ASSIGN_OR_RETURN(const bool possible,
                          table->read_key(arguments_[2], &scratch_->key));
  std::optional<RowAddress> row;
  if (possible) {
    NIMBLE_ASSIGN_OR_RETURN(row, table->find_first(scratch_->key));
  }
  if (!row) {
    reply_->null();
    return Status::ok();
  }
  NIMBLE_RETURN_IF_ERROR(read_row(*table, *row, options.columns));
  if (options.has_columns) {
    put_values(scratch_->row);
  } else {
    put_row(*table, scratch_->row, options.columns);
  }
  return Status::ok();
}

Status Command::find_keys(const ServedTable& table,
                          std::span<const std::string_view> texts,
                          LocatedRows* out) {
  NIMBLE_ASSIGN_OR_RETURN(*out, table.find(texts, &scratch_->key));
  return Status::ok();
}

Status Command::get_many() {
  NIMBLE_ASSIGN_OR_RETURN(const ServedTable* table, known_table(arguments_[1]));
  Options options;
  NIMBLE_RETURN_IF_ERROR(read_options(*table, 2, kManyOptions, &options));
  LocatedRows located;
  NIMBLE_RETURN_IF_ERROR(find_keys(*table, options.keys, &located));
  if (options.as_arrow && options.all) {
    return all_rows_as_arrow(*table, options, located);
  }
  std::vector<size_t> place(options.keys.size(), SIZE_MAX);
  std::vector<FileRange> rows;
  for (size_t i = 0; i < located.keys.size(); ++i) {
    size_t& at = place[located.keys[i]];
    if (at != SIZE_MAX) continue;
    at = rows.size();
    const uint64_t row = located.ranges[i].begin;
    rows.push_back({static_cast<uint32_t>(located.files[i]), {row, row + 1}});
  }
  NIMBLE_RETURN_IF_ERROR(check_rows(rows.size()));
  if (options.as_arrow) {
    text_.clear();
    if (options.skip_missing) {
      // Rows are in the order of the keys. The files' rows are in the same
      // order.
      std::vector<FileRange> ordered;
      std::vector<int64_t> positions;
      for (size_t i = 0; i < place.size(); ++i) {
        if (place[i] == SIZE_MAX) continue;
        ordered.push_back(rows[place[i]]);
        positions.push_back(static_cast<int64_t>(i));
      }
      NIMBLE_RETURN_IF_ERROR(append_arrow_rows(
          *table, arrow_request(options), ordered, false, positions, &text_));
    } else {
      NIMBLE_RETURN_IF_ERROR(append_arrow_places(*table, arrow_request(options),
                                                 rows, place, &text_));
    }
    reply_->text(text_);
    return Status::ok();
  }
  NIMBLE_RETURN_IF_ERROR(read_cells(*table, rows, false, options.columns));
  size_t found = 0;
  for (const size_t at : place) found += at != SIZE_MAX ? 1 : 0;
  reply_->array(options.skip_missing ? found : place.size());
  for (const size_t at : place) {
    if (at != SIZE_MAX) {
      put_cells(at, options.columns.size());
    } else if (!options.skip_missing) {
      reply_->null();
    }
  }
  return Status::ok();
}

Status Command::all_rows_as_arrow(const ServedTable& table,
                                  const Options& options,
                                  const LocatedRows& located) {
  uint64_t total = 0;
  for (const RowRange& r : located.ranges) total += r.size();
  NIMBLE_RETURN_IF_ERROR(check_rows(total));
  std::vector<FileRange> rows;
  std::vector<int64_t> positions;
  for (size_t i = 0; i < located.keys.size(); ++i) {
    rows.push_back(
        {static_cast<uint32_t>(located.files[i]), located.ranges[i]});
    positions.insert(positions.end(), located.ranges[i].size(),
                     static_cast<int64_t>(located.keys[i]));
  }
  text_.clear();
  NIMBLE_RETURN_IF_ERROR(append_arrow_rows(table, arrow_request(options), rows,
                                           false, positions, &text_));
  reply_->text(text_);
  return Status::ok();
}

Status Command::count(bool only_exists) {
  NIMBLE_ASSIGN_OR_RETURN(const ServedTable* table, known_table(arguments_[1]));
  const Arguments texts = arguments_.subspan(2);
  NIMBLE_RETURN_IF_ERROR(check_keys(texts.size()));
  LocatedRows located;
  NIMBLE_RETURN_IF_ERROR(find_keys(*table, texts, &located));
  std::vector<uint64_t> counts(texts.size());
  for (size_t i = 0; i < located.keys.size(); ++i) {
    counts[located.keys[i]] += located.ranges[i].size();
  }
  reply_->array(counts.size());
  for (const uint64_t n : counts) {
    reply_->integer(static_cast<int64_t>(only_exists && n > 0 ? 1 : n));
  }
  return Status::ok();
}

}  // namespace nimble
