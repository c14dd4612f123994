// Command: a command that is being answered.
//
//   run_command.cc      which command it is, tables, keys and limits
//   command_options.cc  options such as COLS and LIMIT
//   hash_commands.cc    commands of hashes
//   row_commands.cc     commands of the rows of given keys
//   page_commands.cc    commands of rows in key order
//   table_commands.cc   commands of tables
#pragma once

#include <optional>

#include "nimble/serve/batch/arrow_rows.h"
#include "nimble/serve/commands.h"

namespace nimble {

using Arguments = std::span<const std::string_view>;

// Whether a word is the same as `upper` in upper case.
bool equals(std::string_view a, std::string_view upper);

// Returns false unless the whole text is a number.
bool parse_count(std::string_view text, uint64_t* out);

class Command {
 public:
  Command(const ServedTables& tables, const CommandOptions& options,
          Arguments arguments, CommandScratch* scratch, Reply* reply)
      : tables_(tables),
        options_(options),
        arguments_(arguments),
        scratch_(scratch),
        reply_(reply),
        cells_(scratch->cells),
        text_(scratch->text) {}

  // Returns whether the command was answered.
  bool run() { return answer() || answered_; }

 private:
  enum class Part : uint8_t { kCount, kNames, kValues };

  // Options that follow the arguments of a command.
  struct Options {
    std::vector<uint32_t> columns;
    bool has_columns = false;
    bool skip_missing = false;
    bool as_arrow = false;
    bool as_raw = false;
    bool all = false;
    std::string probe;
    std::vector<std::string_view> keys;
    uint64_t limit = UINT64_MAX;
    bool reverse = false;
    bool starts_with = false;
    std::optional<std::span<const std::string_view>> filter;
    std::string_view inclusive = "[)";
    std::optional<std::string_view> after;
    std::optional<std::string_view> page;  // empty: the first page
  };

  bool answer();
  bool finish(const Status& status) {
    if (!status) reply_->error(error_of(status));
    return true;
  }
  // NB.AT version command...: answers the command, unless the table has
  // changed.
  bool of_version();
  bool wrong_number() {
    reply_->error("ERR wrong number of arguments for '" + scratch_->name +
                  "' command");
    answered_ = true;
    return false;
  }
  // These functions return true, or answer the error and return false.
  bool exactly(size_t n) { return arguments_.size() == n || wrong_number(); }
  bool at_least(size_t n) { return arguments_.size() >= n || wrong_number(); }

  // ---- tables and keys

  const ServedTable* table_of(std::string_view name) const;
  Result<const ServedTable*> known_table(std::string_view name) const;
  // Returns the table of a key NAME:KEY and sets *rest to the key's text.
  // Returns null if no table has this name.
  const ServedTable* split(std::string_view key, std::string_view* rest) const;
  // Finds the row of a hash's key. If the text is not a valid key of the table,
  // the key does not exist, as in Redis.
  Result<std::optional<RowAddress>> find_hash(std::string_view key,
                                              const ServedTable** table);
  Result<uint32_t> column_of(const ServedTable& table,
                             std::string_view name) const;

  // ---- limits

  Status check_keys(uint64_t n) const;
  Status check_rows(uint64_t n) const;
  Status check_bytes(uint64_t n) const;

  // ---- options

  Status read_options(const ServedTable& table, size_t at,
                      std::span<const char* const> accepted,
                      Options* out) const;
  ArrowRequest arrow_request(const Options& options) const;

  // ---- hashes

  Status hash_all();
  // Columns that the table does not have are nil, like missing fields in Redis.
  Status read_fields(Arguments names, const ServedTable& table, RowAddress row);
  Status hash_many();
  Status hash_one();
  Status hash_exists();
  Status hash_parts(Part part);
  Status exists();
  Status type();
  Status ttl();
  Status hash_all_many();

  // ---- rows of keys

  Status read_row(const ServedTable& table, RowAddress row,
                  std::span<const uint32_t> columns);
  void put_row(const ServedTable& table, const RowText& row,
               std::span<const uint32_t> columns);
  void put_values(const RowText& row);
  // Writes the texts of rows, row by row, into cells_ and text_. Decodes a few
  // rows at a time, so that a reply above the limit does not take much memory.
  Status read_cells(const ServedTable& table, std::span<const FileRange> rows,
                    bool reverse, std::span<const uint32_t> columns);
  void put_cells(size_t row, size_t width);
  Status get();
  // Finds keys. `ranges[key]` are the rows of each key.
  Status find_keys(const ServedTable& table,
                   std::span<const std::string_view> texts, LocatedRows* out);
  // Answers one row for each key: the first row, or null.
  Status get_many();
  // Answers all rows of each key, in the order of the keys.
  Status all_rows_as_arrow(const ServedTable& table, const Options& options,
                           const LocatedRows& located);
  Status count(bool only_exists);

  // ---- pages

  // Hash of the arguments that all pages of one request share.
  uint64_t request_hash(const ServedTable& table, bool is_prefix,
                        const Options& options) const;
  // Returns the token of the page after these rows. The last row has the key
  // `text`. At most `most` rows up to the last one have this key.
  Result<std::string> next_page(const ServedTable& table, bool is_prefix,
                                const Options& options, OrderedRows wanted,
                                RowAddress last, const std::string& text,
                                uint64_t most) const;
  // Answers [next key or nil, rows]. With PAGE: [token of the next page or nil,
  // rows, whether the snapshot has changed since the page before].
  Status ordered(bool is_prefix);

  // ---- tables

  Status describe_schema();
  void put_key(const ServedTable& table, const std::optional<ServedKey>& key);
  Status describe_table();
  // NB.META t FILE checksum size offset size...: parts of a file that AS RAW
  // names.
  Status send_metadata();
  Status list_tables();

  const ServedTables& tables_;
  const CommandOptions& options_;
  Arguments arguments_;
  CommandScratch* const scratch_;
  Reply* const reply_;
  bool answered_ = false;
  std::vector<RowText::Value>& cells_;
  std::string& text_;
};

}  // namespace nimble
