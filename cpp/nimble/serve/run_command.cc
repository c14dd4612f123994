// The functions of commands.h, which command a name is, and what all commands
// share: tables, keys and limits.
#include <algorithm>
#include <array>
#include <cerrno>

#include "nimble/serve/commands_impl.h"
#include "nimble/serve/snapshot/reply_bytes.h"

namespace nimble {
namespace {

// A command with at least this many keys runs on a worker, not on the threads
// of the connections.
constexpr size_t kLongKeys = 64;
// The same limit for NB.MGET, in keys times columns. This many values take
// about 0.1 ms; handing a command to a worker and back takes 0.02 ms.
constexpr size_t kLongValues = 1024;

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

// Stores the name of a command in upper case, cut after 32 bytes.
void set_name(std::string_view given, CommandScratch* scratch) {
  scratch->name.assign(given.substr(0, 32));
  for (char& c : scratch->name) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
  }
}

std::string gone(const std::string& what) {
  return "GONE " + what +
         ": the snapshot has expired, and the server will move to a newer one; "
         "or a file is lost";
}

}  // namespace

bool equals(std::string_view a, std::string_view upper) {
  return a.size() == upper.size() &&
         std::equal(a.begin(), a.end(), upper.begin(), [](char c, char u) {
           return (c >= 'a' && c <= 'z' ? c - 32 : c) == u;
         });
}

bool Command::answer() {
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

bool Command::of_version() {
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

const ServedTable* Command::table_of(std::string_view name) const {
  const auto at = tables_.find(name);
  return at == tables_.end() ? nullptr : at->second.get();
}

Result<const ServedTable*> Command::known_table(std::string_view name) const {
  if (const ServedTable* table = table_of(name)) return table;
  return Status::not_found("NOTABLE no table '" +
                           std::string(name.substr(0, 100)) + "' is served");
}

const ServedTable* Command::split(std::string_view key,
                                  std::string_view* rest) const {
  const size_t at = key.find(':');
  if (at == std::string_view::npos) return nullptr;
  *rest = key.substr(at + 1);
  return table_of(key.substr(0, at));
}

Result<std::optional<RowAddress>> Command::find_hash(
    std::string_view key, const ServedTable** table) {
  std::string_view text;
  *table = split(key, &text);
  if (*table == nullptr) return std::optional<RowAddress>();
  const Result<bool> is_key = (*table)->read_key(text, &scratch_->key);
  if (!is_key) {
    if (is_key.error().code() == StatusCode::kInvalidArgument) {
      return std::optional<RowAddress>();
    }
    return Status(is_key.error().code(), std::string(is_key.error().message()));
  }
  if (!*is_key) return std::optional<RowAddress>();
  return (*table)->find_first(scratch_->key);
}

Result<uint32_t> Command::column_of(const ServedTable& table,
                                    std::string_view name) const {
  if (const auto column = table.find_column(name)) return *column;
  return Status::invalid_argument("no column '" +
                                  std::string(name.substr(0, 100)) + "' in " +
                                  table.manifest().name);
}

Status Command::check_keys(uint64_t n) const {
  if (n <= options_.max_keys) return Status::ok();
  return Status::too_large(std::to_string(n) + " keys; at most " +
                           std::to_string(options_.max_keys) + " are allowed");
}

Status Command::check_rows(uint64_t n) const {
  if (n <= options_.max_rows) return Status::ok();
  return Status::too_large("more than " + std::to_string(options_.max_rows) +
                           " rows; give LIMIT");
}

Status Command::check_bytes(uint64_t n) const {
  return check_reply_bytes(n, options_.max_reply_bytes);
}

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
