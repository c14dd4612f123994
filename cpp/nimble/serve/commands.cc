#include "nimble/serve/commands.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <limits>
#include <numeric>

#include "nimble/base/hash.h"
#include "nimble/serve/batch/arrow_rows.h"
#include "nimble/serve/batch/raw_rows.h"
#include "nimble/serve/page_token.h"
#include "nimble/serve/snapshot/key_filter.h"
#include "nimble/serve/snapshot/reply_bytes.h"
#include "nimble/serve/snapshot/row_slices.h"
#include "nimble/serve/snapshot/table_rows.h"
#include "nimble/serve/snapshot/value_text.h"

namespace nimble {
namespace {

using Arguments = std::span<const std::string_view>;

// A command with at least this many keys runs on a worker, not on the threads
// of the connections.
constexpr size_t kLongKeys = 64;
// The same limit for NB.MGET, in keys times columns. This many values take
// about 0.1 ms; handing a command to a worker and back takes 0.02 ms.
constexpr size_t kLongValues = 1024;
// A filter tests this many rows, and then more if too few of them pass.
constexpr uint64_t kFirstTested = 256;

// Commands that write a key in Redis or Valkey, sorted.
constexpr std::array<std::string_view, 108> kWrites = {"APPEND",
                                                       "BITFIELD",
                                                       "BITOP",
                                                       "BLMOVE",
                                                       "BLMPOP",
                                                       "BLPOP",
                                                       "BRPOP",
                                                       "BRPOPLPUSH",
                                                       "BZMPOP",
                                                       "BZPOPMAX",
                                                       "BZPOPMIN",
                                                       "COPY",
                                                       "DECR",
                                                       "DECRBY",
                                                       "DEL",
                                                       "DELIFEQ",
                                                       "EXPIRE",
                                                       "EXPIREAT",
                                                       "GEOADD",
                                                       "GEORADIUS",
                                                       "GEORADIUSBYMEMBER",
                                                       "GEOSEARCHSTORE",
                                                       "GETDEL",
                                                       "GETEX",
                                                       "GETSET",
                                                       "HDEL",
                                                       "HEXPIRE",
                                                       "HEXPIREAT",
                                                       "HGETDEL",
                                                       "HGETEX",
                                                       "HINCRBY",
                                                       "HINCRBYFLOAT",
                                                       "HMSET",
                                                       "HPERSIST",
                                                       "HPEXPIRE",
                                                       "HPEXPIREAT",
                                                       "HSET",
                                                       "HSETEX",
                                                       "HSETNX",
                                                       "INCR",
                                                       "INCRBY",
                                                       "INCRBYFLOAT",
                                                       "LINSERT",
                                                       "LMOVE",
                                                       "LMPOP",
                                                       "LPOP",
                                                       "LPUSH",
                                                       "LPUSHX",
                                                       "LREM",
                                                       "LSET",
                                                       "LTRIM",
                                                       "MIGRATE",
                                                       "MOVE",
                                                       "MSET",
                                                       "MSETNX",
                                                       "PERSIST",
                                                       "PEXPIRE",
                                                       "PEXPIREAT",
                                                       "PFADD",
                                                       "PFDEBUG",
                                                       "PFMERGE",
                                                       "PSETEX",
                                                       "RENAME",
                                                       "RENAMENX",
                                                       "RESTORE",
                                                       "RESTORE-ASKING",
                                                       "RPOP",
                                                       "RPOPLPUSH",
                                                       "RPUSH",
                                                       "RPUSHX",
                                                       "SADD",
                                                       "SDIFFSTORE",
                                                       "SET",
                                                       "SETBIT",
                                                       "SETEX",
                                                       "SETNX",
                                                       "SETRANGE",
                                                       "SINTERSTORE",
                                                       "SMOVE",
                                                       "SORT",
                                                       "SPOP",
                                                       "SREM",
                                                       "SUNIONSTORE",
                                                       "UNLINK",
                                                       "XACK",
                                                       "XACKDEL",
                                                       "XADD",
                                                       "XAUTOCLAIM",
                                                       "XCLAIM",
                                                       "XDEL",
                                                       "XDELEX",
                                                       "XGROUP",
                                                       "XREADGROUP",
                                                       "XSETID",
                                                       "XTRIM",
                                                       "ZADD",
                                                       "ZDIFFSTORE",
                                                       "ZINCRBY",
                                                       "ZINTERSTORE",
                                                       "ZMPOP",
                                                       "ZPOPMAX",
                                                       "ZPOPMIN",
                                                       "ZRANGESTORE",
                                                       "ZREM",
                                                       "ZREMRANGEBYLEX",
                                                       "ZREMRANGEBYRANK",
                                                       "ZREMRANGEBYSCORE",
                                                       "ZUNIONSTORE"};

bool is_write_command(std::string_view name) {
  return std::binary_search(kWrites.begin(), kWrites.end(), name);
}

bool equals(std::string_view a, std::string_view upper) {
  return a.size() == upper.size() &&
         std::equal(a.begin(), a.end(), upper.begin(), [](char c, char u) {
           return (c >= 'a' && c <= 'z' ? c - 32 : c) == u;
         });
}

// Stores the name of a command in upper case, cut after 32 bytes.
void set_name(std::string_view given, CommandScratch* scratch) {
  scratch->name.assign(given.substr(0, 32));
  for (char& c : scratch->name) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
  }
}

bool parse_count(std::string_view text, uint64_t* out) {
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() &&
         !text.empty();
}

// A command that is being answered.
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
  bool answer() {
    const std::string_view name = scratch_->name;
    const size_t n = arguments_.size();
    if (name == "HGETALL") return exactly(2) && finish(hash_all());
    if (name == "HMGET") return at_least(3) && finish(hash_many());
    if (name == "HGET") return exactly(3) && finish(hash_one());
    if (name == "EXISTS") return at_least(2) && finish(exists());
    if (name == "HEXISTS") return exactly(3) && finish(hash_exists());
    if (name == "HLEN") return exactly(2) && finish(hash_parts(Part::kCount));
    if (name == "HKEYS") return exactly(2) && finish(hash_parts(Part::kNames));
    if (name == "HVALS") return exactly(2) && finish(hash_parts(Part::kValues));
    if (name == "TYPE") return exactly(2) && finish(type());
    if (name == "TTL" || name == "PTTL") return exactly(2) && finish(ttl());
    if (name == "NB.GET") return at_least(3) && finish(get());
    if (name == "NB.MGET") return at_least(4) && finish(get_many());
    if (name == "NB.HMGETALL") return at_least(2) && finish(hash_all_many());
    if (name == "NB.EXISTS") return at_least(3) && finish(count(true));
    if (name == "NB.COUNT") return at_least(3) && finish(count(false));
    if (name == "NB.PREFIX") return at_least(3) && finish(ordered(true));
    if (name == "NB.RANGE") return at_least(4) && finish(ordered(false));
    if (name == "NB.SCHEMA") return at_least(2) && finish(describe_schema());
    if (name == "NB.META" && n == 2) return finish(describe_table());
    if (name == "NB.META") return at_least(7) && finish(send_metadata());
    if (name == "NB.AT") return at_least(4) && of_version();
    if (name == "NB.TABLES") return exactly(1) && finish(list_tables());
    if (n >= 2 && is_write_command(name)) {
      reply_->error("READONLY " + scratch_->name +
                    ": tables are changed by commits, not by clients");
      return true;
    }
    return false;
  }

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

  bool finish(const Status& status) {
    if (!status) reply_->error(error_of(status));
    return true;
  }
  // NB.AT version command...: answers the command, unless the table has
  // changed.
  bool of_version() {
    const std::string_view version = arguments_[1];
    arguments_ = arguments_.subspan(2);
    set_name(arguments_[0], scratch_);
    const std::string& name = scratch_->name;
    if (!name.starts_with("NB.") || name == "NB.AT" || name == "NB.TABLES" ||
        name == "NB.HMGETALL") {
      scratch_->name = "NB.AT";
      return finish(Status::invalid_argument(
          "NB.AT: expected a command of one table, such as NB.MGET"));
    }
    Result<const ServedTable*> table = known_table(arguments_[1]);
    if (!table) return finish(std::move(table).error());
    if ((*table)->version() != version) {
      return finish(Status::not_found(
          "CHANGED version '" + std::string(version.substr(0, 32)) + "' of " +
          (*table)->manifest().name + " is no longer served"));
    }
    return answer();
  }
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

  const ServedTable* table_of(std::string_view name) const {
    const auto at = tables_.find(name);
    return at == tables_.end() ? nullptr : at->second.get();
  }
  Result<const ServedTable*> known_table(std::string_view name) const {
    if (const ServedTable* table = table_of(name)) return table;
    return Status::not_found("NOTABLE no table '" +
                             std::string(name.substr(0, 100)) + "' is served");
  }
  // Returns the table of a key NAME:KEY and sets *rest to the key's text.
  // Returns null if no table has this name.
  const ServedTable* split(std::string_view key, std::string_view* rest) const {
    const size_t at = key.find(':');
    if (at == std::string_view::npos) return nullptr;
    *rest = key.substr(at + 1);
    return table_of(key.substr(0, at));
  }
  // Finds the row of a hash's key. If the text is not a valid key of the table,
  // the key does not exist, as in Redis.
  Result<std::optional<RowAddress>> find_hash(std::string_view key,
                                              const ServedTable** table) {
    std::string_view text;
    *table = split(key, &text);
    if (*table == nullptr) return std::optional<RowAddress>();
    const Result<bool> is_key = (*table)->read_key(text, &scratch_->key);
    if (!is_key) {
      if (is_key.error().code() == StatusCode::kInvalidArgument) {
        return std::optional<RowAddress>();
      }
      return Status(is_key.error().code(),
                    std::string(is_key.error().message()));
    }
    if (!*is_key) return std::optional<RowAddress>();
    return (*table)->find_first(scratch_->key);
  }
  Result<uint32_t> column_of(const ServedTable& table,
                             std::string_view name) const {
    if (const auto column = table.find_column(name)) return *column;
    return Status::invalid_argument("no column '" +
                                    std::string(name.substr(0, 100)) + "' in " +
                                    table.manifest().name);
  }

  // ---- hashes

  void put_row(const ServedTable& table, const RowText& row,
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
  void put_values(const RowText& row) {
    reply_->array(row.values.size());
    for (size_t i = 0; i < row.values.size(); ++i) {
      if (row.values[i].is_null) {
        reply_->null();
      } else {
        reply_->text(row.text(i));
      }
    }
  }

  Status hash_all() {
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

  Status read_row(const ServedTable& table, RowAddress row,
                  std::span<const uint32_t> columns) {
    return read_text(table, row, columns, options_.max_reply_bytes,
                     &scratch_->row);
  }

  // Columns that the table does not have are nil, like missing fields in Redis.
  Status read_fields(Arguments names, const ServedTable& table,
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

  Status hash_many() {
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

  Status hash_one() {
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

  Status hash_exists() {
    const ServedTable* table = nullptr;
    NIMBLE_ASSIGN_OR_RETURN(const auto row, find_hash(arguments_[1], &table));
    if (row) {
      NIMBLE_RETURN_IF_ERROR(read_fields(arguments_.subspan(2), *table, *row));
    }
    reply_->integer(row && !scratch_->row.values[0].is_null ? 1 : 0);
    return Status::ok();
  }

  Status hash_parts(Part part) {
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

  Status exists() {
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

  Status type() {
    const ServedTable* table = nullptr;
    NIMBLE_ASSIGN_OR_RETURN(const auto row, find_hash(arguments_[1], &table));
    reply_->simple(row ? "hash" : "none");
    return Status::ok();
  }

  Status ttl() {
    const ServedTable* table = nullptr;
    NIMBLE_ASSIGN_OR_RETURN(const auto row, find_hash(arguments_[1], &table));
    reply_->integer(row ? -1 : -2);  // never expires, or does not exist
    return Status::ok();
  }

  Status hash_all_many() {
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

  // ---- NB. commands

  Status check_keys(uint64_t n) const {
    if (n <= options_.max_keys) return Status::ok();
    return Status::too_large(std::to_string(n) + " keys; at most " +
                             std::to_string(options_.max_keys) +
                             " are allowed");
  }
  Status check_rows(uint64_t n) const {
    if (n <= options_.max_rows) return Status::ok();
    return Status::too_large("more than " + std::to_string(options_.max_rows) +
                             " rows; give LIMIT");
  }
  Status check_bytes(uint64_t n) const {
    return check_reply_bytes(n, options_.max_reply_bytes);
  }

  // Options that a command accepts.
  static constexpr std::array kSchemaOptions = {"AS"};
  static constexpr std::array kGetOptions = {"COLS"};
  static constexpr std::array kManyOptions = {"COLS",    "KEYS", "AS",
                                              "MISSING", "ALL",  "PROBE"};
  static constexpr std::array kPrefixOptions = {
      "COLS", "AS", "LIMIT", "REVERSE", "STARTS", "PAGE", "FILTER"};
  static constexpr std::array kRangeOptions = {
      "COLS", "AS", "LIMIT", "REVERSE", "AFTER", "INCLUSIVE", "PAGE", "FILTER"};

  Status read_options(const ServedTable& table, size_t at,
                      std::span<const char* const> accepted,
                      Options* out) const {
    const auto missing = [&](std::string_view what) {
      return Status::invalid_argument("arguments are missing after " +
                                      std::string(what));
    };
    // Only commands that read in key order can send blocks: their rows are
    // adjacent.
    const bool can_be_raw =
        std::find_if(accepted.begin(), accepted.end(), [](const char* name) {
          return std::string_view(name) == "PAGE";
        }) != accepted.end();
    uint32_t seen = 0;
    while (at < arguments_.size()) {
      const std::string_view option = arguments_[at++];
      const size_t left = arguments_.size() - at;
      uint64_t n = 0;
      const auto known =
          std::find_if(accepted.begin(), accepted.end(),
                       [&](const char* name) { return equals(option, name); });
      if (known == accepted.end()) {
        return Status::invalid_argument("unknown option '" +
                                        std::string(option.substr(0, 100)) +
                                        "' of " + scratch_->name);
      }
      const uint32_t bit = 1u << (known - accepted.begin());
      if ((seen & bit) != 0) {
        return Status::invalid_argument(std::string(*known) +
                                        " is given twice");
      }
      seen |= bit;
      if (equals(option, "COLS")) {
        if (left < 1 || !parse_count(arguments_[at], &n) || n > left - 1) {
          return missing("COLS");
        }
        ++at;
        out->has_columns = true;
        for (uint64_t i = 0; i < n; ++i) {
          NIMBLE_ASSIGN_OR_RETURN(const uint32_t column,
                                  column_of(table, arguments_[at++]));
          if (std::find(out->columns.begin(), out->columns.end(), column) !=
              out->columns.end()) {
            return Status::invalid_argument(
                "COLS: column '" + table.schema().children[column].name +
                "' is given twice");
          }
          out->columns.push_back(column);
        }
      } else if (equals(option, "KEYS")) {
        if (left < 1 || !parse_count(arguments_[at], &n) || n > left - 1) {
          return missing("KEYS");
        }
        ++at;
        NIMBLE_RETURN_IF_ERROR(check_keys(n));
        const Arguments keys = arguments_.subspan(at, n);
        out->keys.assign(keys.begin(), keys.end());
        at += n;
      } else if (equals(option, "FILTER")) {
        if (left < 1 || !parse_count(arguments_[at], &n) || n > left - 1) {
          return missing("FILTER");
        }
        ++at;
        out->filter = arguments_.subspan(at, n);
        at += n;
      } else if (equals(option, "AS")) {
        if (left < 1) return missing("AS");
        const std::string_view form = arguments_[at++];
        out->as_arrow = equals(form, "ARROW");
        out->as_raw = can_be_raw && equals(form, "RAW");
        if (!out->as_arrow && !out->as_raw && !equals(form, "RESP")) {
          return Status::invalid_argument(
              "AS " + std::string(form.substr(0, 20)) + ": " + scratch_->name +
              " supports AS RESP" +
              (can_be_raw ? ", AS ARROW and AS RAW" : " and AS ARROW"));
        }
      } else if (equals(option, "MISSING")) {
        if (left < 1) return missing("MISSING");
        const std::string_view how = arguments_[at++];
        out->skip_missing = equals(how, "SKIP");
        if (!out->skip_missing && !equals(how, "NULL")) {
          return Status::invalid_argument("MISSING: expected NULL or SKIP");
        }
      } else if (equals(option, "LIMIT")) {
        if (left < 1 || !parse_count(arguments_[at], &out->limit)) {
          return missing("LIMIT");
        }
        ++at;
      } else if (equals(option, "AFTER")) {
        if (left < 1) return missing("AFTER");
        out->after = arguments_[at++];
      } else if (equals(option, "PAGE")) {
        if (left < 1) return missing("PAGE");
        out->page = arguments_[at++];
      } else if (equals(option, "INCLUSIVE")) {
        if (left < 1) return missing("INCLUSIVE");
        out->inclusive = arguments_[at++];
        if (out->inclusive != "[)" && out->inclusive != "[]" &&
            out->inclusive != "()" && out->inclusive != "(]") {
          return Status::invalid_argument(
              "INCLUSIVE: expected [), [], () or (]");
        }
      } else if (equals(option, "REVERSE")) {
        out->reverse = true;
      } else if (equals(option, "ALL")) {
        out->all = true;
      } else if (equals(option, "PROBE")) {
        if (left < 1 || arguments_[at].empty()) return missing("PROBE");
        out->probe = arguments_[at++];
      } else {  // STARTS
        out->starts_with = true;
      }
    }
    if (!out->has_columns) out->columns = table.all_columns();
    if (!out->as_arrow && (out->all || !out->probe.empty())) {
      return Status::invalid_argument("ALL and PROBE need AS ARROW");
    }
    if (out->all && !out->skip_missing) {
      return Status::invalid_argument("ALL needs MISSING SKIP");
    }
    return Status::ok();
  }

  ArrowRequest arrow_request(const Options& options) const {
    return {options.columns, options.probe, false, options_.max_reply_bytes};
  }

  Status get() {
    NIMBLE_ASSIGN_OR_RETURN(const ServedTable* table,
                            known_table(arguments_[1]));
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

  // Finds keys. `ranges[key]` are the rows of each key.
  Status find_keys(const ServedTable& table,
                   std::span<const std::string_view> texts, LocatedRows* out) {
    NIMBLE_ASSIGN_OR_RETURN(*out, table.find(texts, &scratch_->key));
    return Status::ok();
  }

  // Answers one row for each key: the first row, or null.
  Status get_many() {
    NIMBLE_ASSIGN_OR_RETURN(const ServedTable* table,
                            known_table(arguments_[1]));
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
        NIMBLE_RETURN_IF_ERROR(append_arrow_places(
            *table, arrow_request(options), rows, place, &text_));
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

  // Answers all rows of each key, in the order of the keys.
  Status all_rows_as_arrow(const ServedTable& table, const Options& options,
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
    NIMBLE_RETURN_IF_ERROR(append_arrow_rows(table, arrow_request(options),
                                             rows, false, positions, &text_));
    reply_->text(text_);
    return Status::ok();
  }

  // Writes the texts of rows, row by row, into cells_ and text_. Decodes a few
  // rows at a time, so that a reply above the limit does not take much memory.
  Status read_cells(const ServedTable& table, std::span<const FileRange> rows,
                    bool reverse, std::span<const uint32_t> columns) {
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
  void put_cells(size_t row, size_t width) {
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

  Status count(bool only_exists) {
    NIMBLE_ASSIGN_OR_RETURN(const ServedTable* table,
                            known_table(arguments_[1]));
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

  // ---- pages

  static uint64_t count_of(std::span<const FileRange> rows) {
    uint64_t n = 0;
    for (const FileRange& r : rows) n += r.rows.size();
    return n;
  }

  // Identifies the snapshot. A table may have one state in two manifests.
  static uint64_t snapshot_of(const ServedTable& table) {
    const ServingManifest& m = table.manifest();
    return m.snapshot ? static_cast<uint64_t>(*m.snapshot) : m.checksum;
  }

  // Hash of the arguments that all pages of one request share.
  uint64_t request_hash(const ServedTable& table, bool is_prefix,
                        const Options& options) const {
    const ServingManifest& m = table.manifest();
    std::string text;
    const auto add = [&](std::string_view part) {
      text += std::to_string(part.size()) + ":";
      text += part;
    };
    add(m.uuid);
    add(m.name);
    for (const KeyColumnSpec& column : m.cluster_key->columns) {
      add(path_name(table.schema(), column.path));
      text += column.order.descending ? 'd' : 'a';
      text += column.order.nulls_first ? 'f' : 'l';
    }
    text += is_prefix ? 'p' : 'r';
    text += options.reverse ? 'r' : 'f';
    text += options.starts_with ? 's' : 'w';
    add(options.inclusive);
    add(arguments_[2]);
    if (!is_prefix) add(arguments_[3]);
    if (options.filter) {
      for (const std::string_view word : *options.filter) add(word);
    }
    return checksum64(as_bytes(text));
  }

  // Finds the rows after the previous page: first the other rows with its last
  // key, then the rows with later keys. Like find_ordered(), returns up to
  // wanted.limit + 1 rows.
  static Result<std::vector<FileRange>> find_page(const ServedTable& table,
                                                  const TypedKey& last,
                                                  uint64_t rows_of_last,
                                                  OrderedRows wanted) {
    const uint64_t limit = wanted.limit;
    wanted.resume = &last;
    wanted.is_resume_key = true;
    wanted.limit =
        rows_of_last < UINT64_MAX - limit ? rows_of_last + limit : UINT64_MAX;
    NIMBLE_ASSIGN_OR_RETURN(const std::vector<FileRange> equal,
                            table.find_ordered(wanted));
    std::vector<FileRange> out;
    uint64_t skip = rows_of_last;
    for (FileRange r : equal) {
      const uint64_t n = std::min(skip, r.rows.size());
      skip -= n;
      if (wanted.reverse) {
        r.rows.end -= n;
      } else {
        r.rows.begin += n;
      }
      if (!r.rows.empty()) out.push_back(r);
    }
    const uint64_t n = count_of(out);
    if (n > limit) return out;
    wanted.is_resume_key = false;
    wanted.limit = limit - n;
    NIMBLE_ASSIGN_OR_RETURN(const std::vector<FileRange> later,
                            table.find_ordered(wanted));
    out.insert(out.end(), later.begin(), later.end());
    return out;
  }

  // Returns the token of the page after these rows. The last row has the key
  // `text`. At most `most` rows up to the last one have this key.
  Result<std::string> next_page(const ServedTable& table, bool is_prefix,
                                const Options& options, OrderedRows wanted,
                                RowAddress last, const std::string& text,
                                uint64_t most) const {
    TypedKey key;
    NIMBLE_ASSIGN_OR_RETURN(const bool fits,
                            table.read_cluster_key(text, false, &key));
    if (!fits) return Status::corrupt("the key '" + text + "' cannot be read");
    wanted.resume = &key;
    wanted.is_resume_key = true;
    wanted.limit = most;
    NIMBLE_ASSIGN_OR_RETURN(const std::vector<FileRange> equal,
                            table.find_ordered(wanted));
    PageToken token;
    for (const FileRange& r : equal) {
      if (r.file == last.file && r.rows.begin <= last.row &&
          last.row < r.rows.end) {
        token.rows_of_key += options.reverse ? r.rows.end - last.row
                                             : last.row - r.rows.begin + 1;
        break;
      }
      token.rows_of_key += r.rows.size();
    }
    token.request = request_hash(table, is_prefix, options);
    token.snapshot = snapshot_of(table);
    token.key = text;
    return token.seal(options_.page_secret);
  }

  // Answers [next key or nil, rows]. With PAGE: [token of the next page or nil,
  // rows, whether the snapshot has changed since the page before].
  Status ordered(bool is_prefix) {
    NIMBLE_ASSIGN_OR_RETURN(const ServedTable* table,
                            known_table(arguments_[1]));
    Options options;
    NIMBLE_RETURN_IF_ERROR(
        is_prefix ? read_options(*table, 3, kPrefixOptions, &options)
                  : read_options(*table, 4, kRangeOptions, &options));
    OrderedRows wanted;
    wanted.is_prefix = is_prefix;
    wanted.reverse = options.reverse;
    wanted.limit = std::min(options.limit, options_.max_rows);
    wanted.starts_with = is_prefix && options.starts_with;
    const uint64_t most = wanted.limit;
    std::optional<KeyFilter> filter;
    if (options.filter) {
      NIMBLE_ASSIGN_OR_RETURN(filter,
                              KeyFilter::parse(*table, *options.filter));
      // Rows to test. If too few of them pass, more are tested.
      wanted.limit =
          most > options_.max_rows / 4
              ? options_.max_rows
              : std::min(options_.max_rows, std::max(kFirstTested, 4 * most));
    }
    bool possible = true;
    // `open` is the text that stands for "no bound", if there is one.
    const auto bound = [&](std::string_view text,
                           std::optional<std::string_view> open, bool* has,
                           TypedKey* key) -> Status {
      *has = text != open;
      if (!*has) return Status::ok();
      const bool is_escaped = text == "\\-" || text == "\\+";
      if (open && is_escaped) text.remove_prefix(1);
      NIMBLE_ASSIGN_OR_RETURN(
          const bool fits,
          table->read_cluster_key(text, wanted.starts_with, key));
      if (!fits && !is_prefix) {
        return Status::invalid_argument(
            "bound '" + std::string(text) +
            "' is outside of the values of its column");
      }
      possible &= fits;
      return Status::ok();
    };
    if (is_prefix) {
      NIMBLE_RETURN_IF_ERROR(
          bound(arguments_[2], std::nullopt, &wanted.has_lower, &wanted.lower));
    } else {
      wanted.lower_inclusive = options.inclusive[0] == '[';
      wanted.upper_inclusive = options.inclusive[1] == ']';
      NIMBLE_RETURN_IF_ERROR(
          bound(arguments_[2], "-", &wanted.has_lower, &wanted.lower));
      NIMBLE_RETURN_IF_ERROR(
          bound(arguments_[3], "+", &wanted.has_upper, &wanted.upper));
    }
    if (options.after) {
      if (options.reverse) {
        wanted.upper_inclusive = false;
        NIMBLE_RETURN_IF_ERROR(bound(*options.after, std::nullopt,
                                     &wanted.has_upper, &wanted.upper));
      } else {
        wanted.lower_inclusive = false;
        NIMBLE_RETURN_IF_ERROR(bound(*options.after, std::nullopt,
                                     &wanted.has_lower, &wanted.lower));
      }
    }
    std::vector<FileRange> rows;
    PageToken page;
    bool has_moved = false;
    if (options.page) {
      if (options.after || options.limit == 0) {
        return Status::invalid_argument(
            "PAGE cannot be given with AFTER or LIMIT 0");
      }
      if (!options.page->empty()) {
        NIMBLE_ASSIGN_OR_RETURN(
            page, PageToken::open(*options.page, options_.page_secret));
        if (page.request != request_hash(*table, is_prefix, options)) {
          return Status::invalid_argument(
              "page token: it belongs to another table, or to other bounds; "
              "give the bounds of the first page");
        }
        has_moved = page.snapshot != snapshot_of(*table);
      }
    }
    TypedKey resume;
    if (possible && page.rows_of_key > 0) {
      NIMBLE_ASSIGN_OR_RETURN(
          const bool fits, table->read_cluster_key(page.key, false, &resume));
      if (!fits) {
        return Status::invalid_argument(
            "page token: the key columns have other types now; begin again "
            "without a token");
      }
    }
    uint64_t walked = 0;
    bool has_more = false;
    std::optional<RowAddress> last;
    for (;;) {
      if (possible && page.rows_of_key > 0) {
        NIMBLE_ASSIGN_OR_RETURN(
            rows, find_page(*table, resume, page.rows_of_key, wanted));
      } else if (possible) {
        NIMBLE_ASSIGN_OR_RETURN(rows, table->find_ordered(wanted));
      }
      // The read may return one row more than the limit. If it does, there are
      // more rows.
      walked = count_of(rows);
      has_more = walked > wanted.limit;
      if (has_more) drop_last(options.reverse, &rows);
      last = last_of(rows, options.reverse);
      if (!filter) break;
      std::vector<FileRange> passing;
      NIMBLE_ASSIGN_OR_RETURN(
          [[maybe_unused]] const uint64_t tested,
          filter->append_passing(*table, rows, options.reverse,
                                 most < UINT64_MAX ? most + 1 : most,
                                 &passing));
      rows = std::move(passing);
      // If too few rows passed, the next page begins after the tested rows.
      if (count_of(rows) > most) {
        drop_last(options.reverse, &rows);
        last = last_of(rows, options.reverse);
        has_more = true;
        break;
      }
      if (!has_more) break;
      if (wanted.limit < options_.max_rows) {
        wanted.limit = wanted.limit > options_.max_rows / 8 ? options_.max_rows
                                                            : 8 * wanted.limit;
        continue;
      }
      if (!options.page) {
        return Status::too_large("the filter has to test more than " +
                                 std::to_string(options_.max_rows) +
                                 " rows; give PAGE");
      }
      break;
    }
    const uint64_t total = count_of(rows);
    if (has_more && !options.page && options.limit > options_.max_rows) {
      return check_rows(total + 1);
    }
    std::string next;
    const bool has_next = has_more && last;
    if (has_next) {
      NIMBLE_RETURN_IF_ERROR(table->append_cluster_key(*last, &next));
      if (options.page) {
        NIMBLE_ASSIGN_OR_RETURN(
            next, next_page(*table, is_prefix, options, wanted, *last, next,
                            page.rows_of_key + walked));
      }
    }
    text_.clear();
    if (options.as_raw) {
      NIMBLE_RETURN_IF_ERROR(
          append_raw_rows(*table, arrow_request(options),
                          {rows, options.reverse, options_.allow_raw}, &text_));
    } else if (options.as_arrow) {
      NIMBLE_RETURN_IF_ERROR(append_arrow_rows(
          *table, arrow_request(options), rows, options.reverse, {}, &text_));
    } else {
      NIMBLE_RETURN_IF_ERROR(
          read_cells(*table, rows, options.reverse, options.columns));
    }
    reply_->array(options.page ? 3 : 2);
    if (has_next) {
      reply_->text(next);
    } else {
      reply_->null();
    }
    if (options.as_arrow || options.as_raw) {
      reply_->text(text_);
    } else {
      reply_->array(total);
      for (uint64_t i = 0; i < total; ++i) {
        put_cells(i, options.columns.size());
      }
    }
    if (options.page) reply_->integer(has_moved ? 1 : 0);
    return Status::ok();
  }

  // The last row of a read, or nullopt if it has no rows.
  static std::optional<RowAddress> last_of(std::span<const FileRange> rows,
                                           bool reverse) {
    if (rows.empty()) return std::nullopt;
    const RowRange& range = rows.back().rows;
    return RowAddress{rows.back().file, reverse ? range.begin : range.end - 1};
  }
  static void drop_last(bool reverse, std::vector<FileRange>* rows) {
    RowRange& last = rows->back().rows;
    if (reverse) {
      ++last.begin;
    } else {
      --last.end;
    }
    if (last.empty()) rows->pop_back();
  }

  Status describe_schema() {
    NIMBLE_ASSIGN_OR_RETURN(const ServedTable* table,
                            known_table(arguments_[1]));
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

  void put_key(const ServedTable& table, const std::optional<ServedKey>& key) {
    reply_->array(key ? key->columns.size() : 0);
    if (!key) return;
    for (const KeyColumnSpec& column : key->columns) {
      reply_->text(path_name(table.schema(), column.path));
    }
  }

  Status describe_table() {
    NIMBLE_ASSIGN_OR_RETURN(const ServedTable* table,
                            known_table(arguments_[1]));
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

  // NB.META t FILE checksum size offset size...: parts of a file that AS RAW
  // names.
  Status send_metadata() {
    NIMBLE_ASSIGN_OR_RETURN(const ServedTable* table,
                            known_table(arguments_[1]));
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

  Status list_tables() {
    reply_->array(tables_.size());
    for (const auto& [name, table] : tables_) reply_->text(name);
    return Status::ok();
  }

  const ServedTables& tables_;
  const CommandOptions& options_;
  Arguments arguments_;
  CommandScratch* const scratch_;
  Reply* const reply_;
  bool answered_ = false;
  std::vector<RowText::Value>& cells_;
  std::string& text_;
};

std::string gone(const std::string& what) {
  return "GONE " + what +
         ": the snapshot has expired, and the server will move to a newer one; "
         "or a file is lost";
}

}  // namespace

std::string error_of(const Status& status) {
  const std::string message(status.message());
  switch (status.code()) {
    case StatusCode::kCorrupt:
    case StatusCode::kUnsupportedVersion:
      return "CORRUPT " + message;
    case StatusCode::kNotFound:
      if (message.starts_with("NOTABLE ")) return message;
      if (message.starts_with("CHANGED ")) return message;
      return gone(message);
    case StatusCode::kIoError:
      if (status.os_error() == ENOENT) return gone(message);
      return "ERR " + message;
    case StatusCode::kTooLarge:
      return "TOOBIG " + message;
    default:
      return "ERR " + message;
  }
}

bool is_long_command(std::span<const std::string_view> arguments,
                     const ServedTables* tables) {
  if (equals(arguments[0], "NB.MGET")) {
    // With ALL, a single key may have any number of rows. If a key or a
    // column is named ALL, the command runs on a worker needlessly.
    if (std::any_of(arguments.begin(), arguments.end(),
                    [](std::string_view a) { return equals(a, "ALL"); })) {
      return true;
    }
    if (tables == nullptr || arguments.size() < 2) {
      return arguments.size() > kLongKeys;
    }
    const auto table = tables->find(arguments[1]);
    return table != tables->end() &&
           arguments.size() >
               kLongValues /
                   std::max<size_t>(1, table->second->all_columns().size());
  }
  if (arguments.size() > kLongKeys) return true;
  if (equals(arguments[0], "NB.META")) return arguments.size() > 2;
  return equals(arguments[0], "NB.PREFIX") ||
         equals(arguments[0], "NB.RANGE") || equals(arguments[0], "NB.AT");
}

bool run_command(const ServedTables& tables, const CommandOptions& options,
                 std::span<const std::string_view> arguments,
                 CommandScratch* scratch, Reply* reply) {
  const std::string_view given = arguments[0];
  set_name(given, scratch);
  if (given.size() > 32) return false;
  constexpr size_t kMost = CommandScratch::kKeptBytes;
  if (scratch->text.capacity() > kMost) scratch->text = std::string();
  if (scratch->cells.capacity() > kMost / sizeof(RowText::Value)) {
    scratch->cells = std::vector<RowText::Value>();
  }
  return Command(tables, options, arguments, scratch, reply).run();
}

}  // namespace nimble
