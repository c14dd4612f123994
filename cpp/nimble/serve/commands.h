// The commands that a server answers from tables. They are the same for all
// protocols. docs/reference/serving.md lists them. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nimble/serve/reply.h"
#include "nimble/serve/snapshot/row_text.h"
#include "nimble/serve/snapshot/served_table.h"

namespace nimble {

// The tables by name. Keys begin with the name. Immutable: a server replaces
// the whole map.
using ServedTables =
    std::map<std::string, std::shared_ptr<const ServedTable>, std::less<>>;

struct CommandOptions {
  uint64_t max_keys = 10000;
  uint64_t max_rows = 100000;
  uint64_t max_reply_bytes = uint64_t{32} << 20;
  // Whether encoded blocks may be sent. They contain rows that the client did
  // not ask for, including deleted ones.
  bool allow_raw = true;
  // Key of the MACs of page tokens.
  std::string page_secret;
};

// Memory that commands reuse. One per thread.
struct CommandScratch {
  // A larger text is freed before the next command.
  static constexpr size_t kKeptBytes = size_t{1} << 20;

  std::string name;  // of the command, in upper case
  TypedKey key;
  RowText row;
  std::vector<uint32_t> columns;
  std::string text;  // of the reply, or of its rows
  std::vector<RowText::Value> cells;
};

// Whether answering may take long, so that a worker should answer instead of a
// thread of the connections. If the tables are given, their number of columns
// counts, and NB.MGET of a few columns may have more keys.
bool is_long_command(std::span<const std::string_view> arguments,
                     const ServedTables* tables = nullptr);

// Answers one command with exactly one value. If it fails, the error is the
// only answer. Returns whether the command is one of this library's.
// REQUIRES: !arguments.empty().
bool run_command(const ServedTables& tables, const CommandOptions& options,
                 std::span<const std::string_view> arguments,
                 CommandScratch* scratch, Reply* reply);

// Returns the code and the text that answer a failure.
std::string error_of(const Status& status);

}  // namespace nimble
