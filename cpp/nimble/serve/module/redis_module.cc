// The module of Redis and Valkey: the entry points that the server calls.
//
// The server's main thread runs the filter, the short commands and the timer
// that swaps tables. Threads of this module run long commands, whose clients
// are blocked until then. The replies are those of run_command(), so they equal
// those of the embedded server.
//
// The filter renames commands on hashes whose keys are of served tables, such
// as HGETALL users:1 to NBKEY.HGETALL users:1, and refuses commands that write
// such keys. All other commands are the server's.

#include <pthread.h>
#include <signal.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <list>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <system_error>
#include <thread>

#include "nimble/serve/module/module_reply.h"
#include "nimble/serve/module/redis_api.h"
#include "nimble/serve/module/table_watcher.h"

namespace nimble {
namespace {

using Arguments = std::span<const std::string_view>;
using Tables = std::shared_ptr<const ServedTables>;

// Valkey 8.1 loses the replies of threads to such a client.
bool is_subscribed(RedisModuleCtx* context) {
  RedisModuleClientInfo client = {};
  client.version = 1;
  return redis_api.GetClientInfoById(&client, redis_api.GetClientId(context)) ==
             kRedisOk &&
         (client.flags & kRedisClientPubSub) != 0;
}

// Otherwise long commands run in the server's main thread. Servers before Redis
// 7.0 send the replies of threads as RESP2, even to clients of RESP3.
bool can_reply_from_threads(RedisModuleCtx* context) {
  return redis_api.ReplyWithMap != nullptr && !is_subscribed(context);
}

constexpr long long kSwapMillis = 20;
constexpr std::string_view kKeyPrefix = "NBKEY.";

// Commands on NAME:KEY that the filter renames.
constexpr std::array<std::string_view, 11> kHashCommands = {
    "HGETALL", "HMGET", "HGET", "EXISTS", "HEXISTS", "HLEN",
    "HKEYS",   "HVALS", "TYPE", "TTL",    "PTTL"};

// Commands that only announce keys. The filter passes them, because it also
// sees the commands that then use these keys.
constexpr std::array<std::string_view, 7> kPassed = {
    "EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "FCALL", "FCALL_RO", "WATCH"};

std::string_view view_of(const RedisModuleString* text) {
  size_t size = 0;
  const char* const bytes = redis_api.StringPtrLen(text, &size);
  return {bytes, size};
}

RedisModuleString* string_of(std::string_view text) {
  return redis_api.CreateString(nullptr, text.data(), text.size());
}

bool equals(std::string_view a, std::string_view upper) {
  return a.size() == upper.size() &&
         std::equal(a.begin(), a.end(), upper.begin(), [](char c, char u) {
           return (c >= 'a' && c <= 'z' ? c - 32 : c) == u;
         });
}

// A command of a blocked client.
struct Job {
  RedisModuleBlockedClient* client = nullptr;
  std::vector<std::string> words;
  uint64_t bytes = 0;
  Tables tables;
  bool is_swap = false;
};
// Jobs move between lists as nodes, so that this needs no memory.
using Jobs = std::list<Job>;

class Module {
 public:
  explicit Module(ModuleOptions options);

  // Starts the threads. Fails if one of each kind cannot start.
  Status start();
  void stop();
  // Makes the names that the filter needs.
  void make_names();

  // The functions for the server's main thread.
  int run(RedisModuleCtx* context, RedisModuleString** words, int count,
          size_t skipped_bytes);
  int refuse(RedisModuleCtx* context, RedisModuleString** words, int count);
  int swap(RedisModuleCtx* context, RedisModuleString** words, int count);
  void take_tables() {
    if (!watcher_.take(&tables_)) return;
    for (const auto& [name, table] : *tables_) seen_.insert(name);
  }
  void filter(RedisModuleCommandFilterCtx* context);
  void put_info(RedisModuleInfoCtx* context);

 private:
  // Whether a key belongs to a table that is configured.
  bool is_ours(std::string_view key) const;
  // Whether a command has a key of a table.
  bool has_our_keys(RedisModuleCommandFilterCtx* context, int count) const;
  // The table that one of the arguments needs and that has no manifest yet. A
  // table that was dropped since has no rows.
  const std::string* missing_table(Arguments arguments) const;
  // Answers EXISTS if some keys are the server's own.
  bool answer_mixed_exists(RedisModuleCtx* context, RedisModuleString** words,
                           Arguments arguments, ModuleReply* reply);
  void answer(const ServedTables& tables, Arguments arguments,
              CommandScratch* scratch, ModuleReply* reply) noexcept;
  // Blocks the client and hands the command to a thread.
  void submit(RedisModuleCtx* context, Arguments arguments, bool is_swap,
              ModuleReply* reply);
  void work() noexcept;
  void finish(Job* job, CommandScratch* scratch) noexcept;

  const ModuleOptions options_;
  TableWatcher watcher_;
  Tables tables_ = std::make_shared<const ServedTables>();
  std::set<std::string, std::less<>> seen_;  // tables that had a manifest
  size_t longest_name_ = 0;
  // Names that the filter puts in place of others.
  std::array<RedisModuleString*, kHashCommands.size()> key_commands_{};
  RedisModuleString* refuse_ = nullptr;
  CommandScratch scratch_;
  std::vector<std::string_view> arguments_;

  mutable std::mutex jobs_mutex_;
  std::condition_variable jobs_ready_;
  Jobs jobs_;
  uint64_t jobs_bytes_ = 0;
  uint64_t busy_ = 0;
  bool is_stopped_ = false;
  std::vector<std::thread> workers_;
};

// Never destroyed: a server that exits does not wait for the threads.
Module* module = nullptr;

void log_warning(const std::string& message) {
  redis_api.Log(nullptr, "warning", "nimble: %s", message.c_str());
}

Module::Module(ModuleOptions options)
    : options_(std::move(options)), watcher_(options_, log_warning) {
  for (const auto& [name, table] : options_.tables) {
    longest_name_ = std::max(longest_name_, name.size());
  }
}

Status Module::start() {
  watcher_.poll();
  take_tables();
  NIMBLE_RETURN_IF_ERROR(watcher_.start());
  try {
    for (uint32_t i = 0; i < options_.threads; ++i) {
      workers_.emplace_back([this] { work(); });
    }
  } catch (const std::system_error& error) {
    if (workers_.empty()) {
      stop();
      return Status::io_error(
          "a thread cannot start: " + error.code().message(),
          error.code().value());
    }
  }
  return Status::ok();
}

void Module::stop() {
  {
    const std::lock_guard lock(jobs_mutex_);
    is_stopped_ = true;
  }
  jobs_ready_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
  watcher_.stop();
}

void Module::make_names() {
  for (size_t i = 0; i < kHashCommands.size(); ++i) {
    key_commands_[i] =
        string_of(std::string(kKeyPrefix) + std::string(kHashCommands[i]));
  }
  refuse_ = string_of("NB.REFUSE");
}

// ---- the filter

bool Module::is_ours(std::string_view key) const {
  const size_t at = key.substr(0, longest_name_ + 1).find(':');
  return at != std::string_view::npos &&
         options_.tables.find(key.substr(0, at)) != options_.tables.end();
}

bool Module::has_our_keys(RedisModuleCommandFilterCtx* context,
                          int count) const {
  std::vector<RedisModuleString*> words(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    words[static_cast<size_t>(i)] = redis_api.CommandFilterArgGet(context, i);
  }
  int n = 0;
  int* const keys = redis_api.GetCommandKeys(nullptr, words.data(), count, &n);
  if (keys == nullptr) return false;
  const bool found = std::any_of(keys, keys + n, [&](int at) {
    return at >= 0 && at < count &&
           is_ours(view_of(words[static_cast<size_t>(at)]));
  });
  redis_api.Free(keys);
  return found;
}

void Module::filter(RedisModuleCommandFilterCtx* context) {
  const int count = redis_api.CommandFilterArgsCount(context);
  if (count < 2) return;
  const auto word = [&](int i) {
    return view_of(redis_api.CommandFilterArgGet(context, i));
  };
  int ours = 1;  // the first argument that is a key of a table
  while (ours < count && !is_ours(word(ours))) ++ours;
  if (ours == count) return;
  const std::string_view name = word(0);
  for (size_t i = 0; i < kHashCommands.size(); ++i) {
    if (!equals(name, kHashCommands[i])) continue;
    // Of these, only EXISTS has more than one key.
    if (ours > 1 && kHashCommands[i] != "EXISTS") return;
    redis_api.RetainString(nullptr, key_commands_[i]);
    redis_api.CommandFilterArgReplace(context, 0, key_commands_[i]);
    return;
  }
  const auto is_name = [&](std::string_view n) { return equals(name, n); };
  if (std::any_of(kPassed.begin(), kPassed.end(), is_name) ||
      equals(name.substr(0, 3), "NB.") ||
      equals(name.substr(0, kKeyPrefix.size()), kKeyPrefix)) {
    return;
  }
  if (has_our_keys(context, count)) {
    // NB.REFUSE, the name, and the arguments without the first. The number of
    // words must not grow: scripts of Redis 6.2 would write past their end.
    RedisModuleString* const old = redis_api.CommandFilterArgGet(context, 0);
    redis_api.RetainString(nullptr, old);
    redis_api.CommandFilterArgReplace(context, 1, old);
    redis_api.RetainString(nullptr, refuse_);
    redis_api.CommandFilterArgReplace(context, 0, refuse_);
  }
}

// ---- commands

const std::string* Module::missing_table(Arguments arguments) const {
  if (seen_.size() == options_.tables.size()) return nullptr;
  const bool has_many =
      equals(arguments[0], "EXISTS") || equals(arguments[0], "NB.HMGETALL");
  const size_t end =
      has_many ? arguments.size() : std::min<size_t>(2, arguments.size());
  for (size_t i = 1; i < end; ++i) {
    const std::string_view key = arguments[i];
    if (!is_ours(key)) continue;
    const std::string_view name = key.substr(0, key.find(':'));
    if (!seen_.contains(name)) {
      return &options_.tables.find(name)->second;
    }
  }
  return nullptr;
}

void Module::answer(const ServedTables& tables, Arguments arguments,
                    CommandScratch* scratch, ModuleReply* reply) noexcept {
  try {
    if (!run_command(tables, options_.commands, arguments, scratch, reply)) {
      reply->error("ERR unknown command '" +
                   std::string(arguments[0].substr(0, 128)) + "'");
    }
  } catch (const std::exception&) {  // no memory
    // Completes the reply, so that the connection remains usable.
    while (reply->missing() > 0) reply->error("TOOBIG out of memory");
  }
}

bool Module::answer_mixed_exists(RedisModuleCtx* context,
                                 RedisModuleString** words, Arguments arguments,
                                 ModuleReply* reply) {
  if (!equals(arguments[0], "EXISTS")) return false;
  std::vector<std::string_view> ours = {"EXISTS"};
  std::vector<RedisModuleString*> others;
  for (size_t i = 1; i < arguments.size(); ++i) {
    if (is_ours(arguments[i])) {
      ours.push_back(arguments[i]);
    } else {
      others.push_back(words[i]);
    }
  }
  if (others.empty()) return false;
  // The count for the keys of tables, in RESP: ":3" and a line break, or an
  // error.
  std::string text;
  RespReply found(&text);
  run_command(*tables_, options_.commands, ours, &scratch_, &found);
  if (text[0] != ':') {
    reply->error(std::string_view(text).substr(1, text.size() - 3));
    return true;
  }
  RedisModuleCallReply* const result =
      redis_api.Call(context, "EXISTS", "v", others.data(), others.size());
  if (result == nullptr) {
    reply->error("ERR EXISTS: the server cannot count its own keys");
    return true;
  }
  reply->integer(std::atoll(text.c_str() + 1) +
                 redis_api.CallReplyInteger(result));
  redis_api.FreeCallReply(result);
  return true;
}

int Module::run(RedisModuleCtx* context, RedisModuleString** words, int count,
                size_t skipped_bytes) {
  ModuleReply reply(context);
  try {
    arguments_.clear();
    for (int i = 0; i < count; ++i) arguments_.push_back(view_of(words[i]));
    const Arguments arguments = arguments_;
    arguments_[0].remove_prefix(skipped_bytes);
    if (const std::string* const table = missing_table(arguments)) {
      reply.error("NOTABLE the table " + *table +
                  " has no serving manifest yet; INFO nimble has the reason");
      return kRedisOk;
    }
    if (skipped_bytes > 0 &&
        answer_mixed_exists(context, words, arguments, &reply)) {
      return kRedisOk;
    }
    if (is_long_command(arguments, tables_.get()) &&
        can_reply_from_threads(context) &&
        (redis_api.GetContextFlags(context) &
         (kRedisInLua | kRedisInMulti | kRedisDenyBlocking)) == 0) {
      submit(context, arguments, false, &reply);
      return kRedisOk;
    }
    answer(*tables_, arguments, &scratch_, &reply);
  } catch (const std::exception&) {  // no memory
    while (reply.missing() > 0) reply.error("TOOBIG out of memory");
  }
  return kRedisOk;
}

// NB.REFUSE COMMAND ...: answers the error of a command that does not work for
// the keys of tables. Clients can send it too, and the server checks no keys of
// it, so it sees no tables and its reply is an error for every command.
int Module::refuse(RedisModuleCtx* context, RedisModuleString** words,
                   int count) {
  ModuleReply reply(context);
  try {
    arguments_.clear();
    for (int i = 1; i < count; ++i) arguments_.push_back(view_of(words[i]));
    if (arguments_.empty()) {
      reply.error("ERR wrong number of arguments for 'NB.REFUSE' command");
      return kRedisOk;
    }
    arguments_.emplace_back();  // the filter replaced an argument
    std::string text;
    RespReply found(&text);
    run_command(ServedTables(), options_.commands, arguments_, &scratch_,
                &found);
    if (text.starts_with('-')) {
      reply.error(std::string_view(text).substr(1, text.size() - 3));
    } else {
      reply.error("ERR unknown command '" +
                  std::string(arguments_[0].substr(0, 128)) + "'");
    }
  } catch (const std::exception&) {  // no memory
    while (reply.missing() > 0) reply.error("TOOBIG out of memory");
  }
  return kRedisOk;
}

int Module::swap(RedisModuleCtx* context, RedisModuleString** words,
                 int count) {
  ModuleReply reply(context);
  try {
    if (count != 3) {
      reply.error("ERR wrong number of arguments for 'NB.SWAP' command");
      return kRedisOk;
    }
    if ((redis_api.GetContextFlags(context) &
         (kRedisInLua | kRedisInMulti | kRedisDenyBlocking)) != 0) {
      reply.error("ERR NB.SWAP is not allowed in MULTI or in a script");
      return kRedisOk;
    }
    if (is_subscribed(context)) {
      reply.error(
          "ERR NB.SWAP: this client is subscribed to a channel; use another "
          "connection");
      return kRedisOk;
    }
    arguments_.clear();
    for (int i = 0; i < count; ++i) arguments_.push_back(view_of(words[i]));
    submit(context, arguments_, true, &reply);
  } catch (const std::exception&) {  // no memory
    while (reply.missing() > 0) reply.error("TOOBIG out of memory");
  }
  return kRedisOk;
}

// Answers NB.SWAP after the manifest was read. The private data is the error,
// or null.
int answer_swap(RedisModuleCtx* context, RedisModuleString**, int) {
  const auto* const error = static_cast<const std::string*>(
      redis_api.GetBlockedClientPrivateData(context));
  ModuleReply reply(context);
  if (error == nullptr) {
    module->take_tables();
    reply.simple("OK");
  } else {
    reply.error(*error);
  }
  return kRedisOk;
}

void free_swap(RedisModuleCtx*, void* error) {
  delete static_cast<std::string*>(error);
}

// ---- threads

void Module::submit(RedisModuleCtx* context, Arguments arguments, bool is_swap,
                    ModuleReply* reply) {
  Jobs job(1);
  Job& j = job.front();
  j.words.assign(arguments.begin(), arguments.end());
  j.bytes = sizeof(Job);
  for (const std::string_view a : arguments) {
    j.bytes += sizeof(std::string) + a.size();
  }
  j.tables = tables_;
  j.is_swap = is_swap;
  {
    const std::lock_guard lock(jobs_mutex_);
    if (is_stopped_) {
      reply->error("BUSY the server is shutting down");
      return;
    }
    if (jobs_.size() >= options_.max_queued ||
        (!jobs_.empty() && jobs_bytes_ + j.bytes > options_.max_queued_bytes)) {
      ++busy_;
      reply->error("BUSY " + std::to_string(options_.max_queued) +
                   " long commands are waiting already; try again later");
      return;
    }
    j.client = redis_api.BlockClient(context, is_swap ? answer_swap : nullptr,
                                     nullptr, is_swap ? free_swap : nullptr, 0);
    jobs_bytes_ += j.bytes;
    jobs_.splice(jobs_.end(), job);
  }
  jobs_ready_.notify_one();
}

void Module::work() noexcept {
  sigset_t all;
  ::sigfillset(&all);  // signals are for the server's threads
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  CommandScratch scratch;
  for (;;) {
    Jobs job;
    {
      std::unique_lock lock(jobs_mutex_);
      jobs_ready_.wait(lock, [&] { return !jobs_.empty() || is_stopped_; });
      if (is_stopped_) return;
      job.splice(job.begin(), jobs_, jobs_.begin());
      jobs_bytes_ -= job.front().bytes;
    }
    finish(&job.front(), &scratch);
  }
}

void Module::finish(Job* job, CommandScratch* scratch) noexcept {
  if (job->is_swap) {
    std::string* error = nullptr;
    try {
      const Status status = watcher_.load(job->words[1], job->words[2]);
      if (!status) error = new std::string(error_of(status));
    } catch (const std::exception&) {
      error = new (std::nothrow) std::string("TOOBIG out of memory");
    }
    redis_api.UnblockClient(job->client, error);
    return;
  }
  // The reply is collected for the client without the server's lock.
  RedisModuleCtx* const context = redis_api.GetThreadSafeContext(job->client);
  ModuleReply reply(context);
  try {
    const std::vector<std::string_view> arguments(job->words.begin(),
                                                  job->words.end());
    answer(*job->tables, arguments, scratch, &reply);
  } catch (const std::exception&) {
    while (reply.missing() > 0) reply.error("TOOBIG out of memory");
  }
  job->tables.reset();
  redis_api.FreeThreadSafeContext(context);
  redis_api.UnblockClient(job->client, nullptr);
}

// ---- INFO

void Module::put_info(RedisModuleInfoCtx* context) {
  const TableWatcher::State state = watcher_.state();
  redis_api.InfoAddSection(context, "tables");
  for (const auto& [name, table] : *tables_) {
    const ServingManifest& m = table->manifest();
    const std::string text =
        "rows=" + std::to_string(table->num_rows()) +
        ",files=" + std::to_string(m.files.size()) + ",snapshot=" +
        (m.snapshot ? std::to_string(*m.snapshot) : std::string("none"));
    redis_api.InfoAddFieldCString(context, name.c_str(), text.c_str());
  }
  redis_api.InfoAddSection(context, "manifests");
  redis_api.InfoAddFieldULongLong(context, "swaps", state.swaps);
  redis_api.InfoAddFieldULongLong(context, "failures", state.failures);
  std::string error = state.last_error.empty() ? "none" : state.last_error;
  std::replace_if(
      error.begin(), error.end(), [](char c) { return c >= 0 && c < ' '; },
      ' ');
  redis_api.InfoAddFieldCString(context, "last_error", error.c_str());
  uint64_t waiting = 0, busy = 0;
  {
    const std::lock_guard lock(jobs_mutex_);
    waiting = jobs_.size();
    busy = busy_;
  }
  redis_api.InfoAddSection(context, "commands");
  redis_api.InfoAddFieldULongLong(context, "waiting", waiting);
  redis_api.InfoAddFieldULongLong(context, "busy", busy);
}

// ---- functions that the server calls. Exceptions must not leave them.

int on_table_command(RedisModuleCtx* c, RedisModuleString** words, int count) {
  return module->run(c, words, count, 0);
}

int on_key_command(RedisModuleCtx* c, RedisModuleString** words, int count) {
  return module->run(c, words, count, kKeyPrefix.size());
}

int on_refuse(RedisModuleCtx* c, RedisModuleString** words, int count) {
  return module->refuse(c, words, count);
}

int on_swap(RedisModuleCtx* c, RedisModuleString** words, int count) {
  return module->swap(c, words, count);
}

void on_filter(RedisModuleCommandFilterCtx* context) {
  try {
    module->filter(context);
  } catch (const std::exception&) {  // no memory; the server answers itself
  }
}

void on_timer(RedisModuleCtx* context, void*) {
  try {
    module->take_tables();
  } catch (const std::exception&) {  // no memory; the next time may succeed
  }
  redis_api.CreateTimer(context, kSwapMillis, on_timer, nullptr);
}

void on_shutdown(RedisModuleCtx*, RedisModuleEvent, uint64_t, void*) {
  try {
    module->stop();
  } catch (const std::exception&) {
  }
}

void on_info(RedisModuleInfoCtx* context, int is_for_crash) {
  if (is_for_crash != 0) return;  // locks may be held
  try {
    module->put_info(context);
  } catch (const std::exception&) {
  }
}

struct CommandSpec {
  const char* name;
  RedisCommandFunction function;
  const char* flags;
  const char* categories;
  int first_key, last_key;  // 0: no keys; last -1: until the end
};

// The name of a table is a key for the access control of the server.
constexpr CommandSpec kCommands[] = {
    {"nb.get", on_table_command, "readonly fast", "read fast", 1, 1},
    {"nb.mget", on_table_command, "readonly", "read slow", 1, 1},
    {"nb.hmgetall", on_table_command, "readonly", "read slow", 1, -1},
    {"nb.exists", on_table_command, "readonly", "read slow", 1, 1},
    {"nb.count", on_table_command, "readonly", "read slow", 1, 1},
    {"nb.prefix", on_table_command, "readonly", "read slow", 1, 1},
    {"nb.range", on_table_command, "readonly", "read slow", 1, 1},
    {"nb.schema", on_table_command, "readonly", "read slow", 1, 1},
    {"nb.meta", on_table_command, "readonly", "read slow", 1, 1},
    {"nb.at", on_table_command, "readonly", "read slow", 3, 3},
    {"nb.tables", on_table_command, "readonly fast", "read fast", 0, 0},
    {"nb.refuse", on_refuse, "readonly fast", "read fast", 0, 0},
    {"nb.swap", on_swap, "admin", "admin dangerous slow", 1, 1},
    {"nbkey.hgetall", on_key_command, "readonly fast", "read fast", 1, 1},
    {"nbkey.hmget", on_key_command, "readonly fast", "read fast", 1, 1},
    {"nbkey.hget", on_key_command, "readonly fast", "read fast", 1, 1},
    {"nbkey.exists", on_key_command, "readonly fast", "read fast", 1, -1},
    {"nbkey.hexists", on_key_command, "readonly fast", "read fast", 1, 1},
    {"nbkey.hlen", on_key_command, "readonly fast", "read fast", 1, 1},
    {"nbkey.hkeys", on_key_command, "readonly fast", "read fast", 1, 1},
    {"nbkey.hvals", on_key_command, "readonly fast", "read fast", 1, 1},
    {"nbkey.type", on_key_command, "readonly fast", "read fast", 1, 1},
    {"nbkey.ttl", on_key_command, "readonly fast", "read fast", 1, 1},
    {"nbkey.pttl", on_key_command, "readonly fast", "read fast", 1, 1},
};

// Describes a command for the access control of servers that can do so. Without
// this, a client that may only read keys could not run the command.
bool describe(RedisModuleCtx* context, const CommandSpec& spec) {
  const RedisApi& api = redis_api;
  if (api.GetCommand == nullptr || api.SetCommandInfo == nullptr) return true;
  RedisModuleCommand* const command = api.GetCommand(context, spec.name);
  if (command == nullptr) return false;
  if (api.SetCommandACLCategories != nullptr &&
      api.SetCommandACLCategories(command, spec.categories) != kRedisOk) {
    return false;
  }
  if (spec.first_key == 0) return true;
  RedisModuleCommandKeySpec keys[2] = {};
  keys[0].flags = kRedisKeyReadOnly | kRedisKeyAccess;
  keys[0].begin_search_type = kRedisBeginIndex;
  keys[0].bs.index.pos = spec.first_key;
  keys[0].find_keys_type = kRedisFindRange;
  keys[0].fk.range.lastkey = spec.last_key < 0 ? -1 : 0;
  keys[0].fk.range.keystep = 1;
  // Version 1 with the sizes of its three structs. Only key specifications are
  // given.
  static constexpr RedisModuleCommandInfoVersion kVersion = {
      1, 2 * sizeof(char*), sizeof(RedisModuleCommandKeySpec),
      8 * sizeof(char*)};
  RedisModuleCommandInfo info = {};
  info.version = &kVersion;
  info.key_specs = keys;
  return api.SetCommandInfo(command, &info) == kRedisOk;
}

bool create_commands(RedisModuleCtx* context) {
  for (const CommandSpec& spec : kCommands) {
    if (redis_api.CreateCommand(context, spec.name, spec.function, spec.flags,
                                spec.first_key, spec.last_key,
                                spec.first_key > 0 ? 1 : 0) != kRedisOk) {
      redis_api.Log(context, "warning",
                    "nimble: the command %s cannot be created; another module "
                    "may have it",
                    spec.name);
      return false;
    }
    if (!describe(context, spec)) {
      redis_api.Log(context, "warning",
                    "nimble: the server does not accept the description of %s",
                    spec.name);
      return false;
    }
  }
  return true;
}

// The key that signs page tokens. They are valid until the server stops.
Result<std::string> random_secret() {
  std::string out(32, '\0');
  if (::getentropy(out.data(), out.size()) != 0) {
    return Status::io_error("cannot get random bytes from the system", errno);
  }
  return out;
}

Result<std::unique_ptr<Module>> make_module(RedisModuleString** words,
                                            int count) {
  std::vector<std::string_view> arguments;
  for (int i = 0; i < count; ++i) arguments.push_back(view_of(words[i]));
  NIMBLE_ASSIGN_OR_RETURN(ModuleOptions options,
                          ModuleOptions::parse(arguments));
  NIMBLE_ASSIGN_OR_RETURN(options.commands.page_secret, random_secret());
  return std::make_unique<Module>(std::move(options));
}

int load_module(RedisModuleCtx* context, RedisModuleString** words, int count) {
  if (const char* const name = load_redis_api(context)) {
    if (redis_api.Log != nullptr) {
      redis_api.Log(context, "warning",
                    "nimble: the server has no function RedisModule_%s; Redis "
                    "6.2 or later, or Valkey, is needed",
                    name);
    }
    return kRedisError;
  }
  const RedisApi& api = redis_api;
  if (module != nullptr || api.IsModuleNameBusy("nimble") != 0) {
    api.Log(context, "warning", "nimble: the module is loaded already");
    return kRedisError;
  }
  api.SetModuleAttribs(context, "nimble", 1, kRedisApiVersion);
  auto made = make_module(words, count);
  if (!made) {
    log_warning(std::string(made.error().message()));
    return kRedisError;
  }
  if (!create_commands(context)) return kRedisError;
  const Status status = (*made)->start();
  if (!status) {
    log_warning(std::string(status.message()));
    return kRedisError;
  }
  (*made)->make_names();
  // From here on, nothing fails.
  module = made->release();
  api.RegisterInfoFunc(context, on_info);
  api.SubscribeToServerEvent(context, kRedisShutdown, on_shutdown);
  api.CreateTimer(context, kSwapMillis, on_timer, nullptr);
  api.RegisterCommandFilter(context, on_filter, kRedisFilterNotSelf);
  return kRedisOk;
}

}  // namespace
}  // namespace nimble

// The server calls this when it loads the module.
extern "C" __attribute__((visibility("default"))) int RedisModule_OnLoad(
    RedisModuleCtx* context, RedisModuleString** words, int count) {
  try {
    return nimble::load_module(context, words, count);
  } catch (const std::exception&) {  // no memory
    return nimble::kRedisError;
  }
}

// Refuses MODULE UNLOAD: threads of the module run, and clients may be blocked.
extern "C" __attribute__((visibility("default"))) int RedisModule_OnUnload(
    RedisModuleCtx*) {
  return nimble::kRedisError;
}
