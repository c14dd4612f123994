// ModuleOptions: the words after `loadmodule nimble_redis.so`.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "nimble/base/result.h"
#include "nimble/serve/commands.h"

namespace nimble {

struct ModuleOptions {
  // The directory of the serving manifests.
  std::string directory;
  // If it is not empty, files of served tables must be below this directory.
  std::string lake;
  // Maps names in keys to tables, such as users -> shop.users.
  std::map<std::string, std::string, std::less<>> tables;
  uint32_t threads = 2;
  uint32_t max_queued = 256;  // long commands that wait for a thread
  uint64_t max_queued_bytes = uint64_t{64} << 20;  // of their arguments
  CommandOptions commands;

  // Parses pairs of a name and a value:
  //   lake PATH | directory PATH, table TABLE=NAME (any number of times),
  //   threads N, max-keys N, max-rows N, max-reply-bytes N, raw yes|no
  static Result<ModuleOptions> parse(std::span<const std::string_view> words);
};

}  // namespace nimble
