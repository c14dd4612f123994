// The commands that a server answers from tables, the same for every carrier.
// docs/reference/serving.md lists them. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "nimble/serve/reply.h"
#include "nimble/serve/served_table.h"

namespace nimble {

// Tables by the name that keys begin with. Immutable: a server swaps the set.
using ServedTables =
    std::map<std::string, std::shared_ptr<const ServedTable>, std::less<>>;

struct CommandLimits {
  uint64_t max_keys = 10000;
  uint64_t max_rows = 100000;
  uint64_t max_reply_bytes = uint64_t{32} << 20;
};

// Memory that commands reuse. One per thread.
struct CommandScratch {
  std::string name;  // of the command, in upper case
  TypedKey key;
  RowText row;
};

// Whether answering may take long, so that it belongs on another thread than
// that of the connections.
bool is_long_command(std::span<const std::string_view> arguments);

// Answers one command with exactly one value. An error is answered before any
// other byte. Returns whether the command is one of ours.
// REQUIRES: !arguments.empty().
bool run_command(const ServedTables& tables, const CommandLimits& limits,
                 std::span<const std::string_view> arguments,
                 CommandScratch* scratch, Reply* reply);

// The answer's code and text of a failure.
std::string error_of(const Status& status);

}  // namespace nimble
