#include "nimble/serve/module/module_options.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

namespace nimble {
namespace {

constexpr uint64_t kMaxThreads = 64;

Status unusable(std::string_view option, std::string_view value,
                std::string_view expected) {
  return Status::invalid_argument("option " + std::string(option) + " '" +
                                  std::string(value.substr(0, 200)) +
                                  "': expected " + std::string(expected));
}

Result<uint64_t> parse_number(std::string_view option, std::string_view value,
                              uint64_t least, uint64_t most) {
  uint64_t n = 0;
  const char* const end = value.data() + value.size();
  const auto [at, error] = std::from_chars(value.data(), end, n);
  if (value.empty() || error != std::errc() || at != end || n < least ||
      n > most) {
    return unusable(option, value,
                    "a number from " + std::to_string(least) + " to " +
                        std::to_string(most));
  }
  return n;
}

// Paths must be absolute: a server changes its working directory.
Result<std::string> parse_path(std::string_view option,
                               std::string_view value) {
  std::filesystem::path path{std::string(value)};
  if (!path.is_absolute() || value.find('\0') != std::string_view::npos) {
    return unusable(option, value, "an absolute path");
  }
  path = path.lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.string();
}

bool is_name(std::string_view name) {
  return !name.empty() && std::none_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) <= ' ' || c == ':' || c == '/' ||
           c == '\\';
  });
}

}  // namespace

Result<ModuleOptions> ModuleOptions::parse(
    std::span<const std::string_view> words) {
  ModuleOptions out;
  if (words.size() % 2 != 0) {
    return Status::invalid_argument("option '" +
                                    std::string(words.back().substr(0, 200)) +
                                    "' has no value");
  }
  for (size_t i = 0; i < words.size(); i += 2) {
    const std::string_view option = words[i];
    const std::string_view value = words[i + 1];
    if (option == "lake") {
      NIMBLE_ASSIGN_OR_RETURN(out.lake, parse_path(option, value));
      if (out.directory.empty()) out.directory = out.lake + "/serve";
    } else if (option == "directory") {
      NIMBLE_ASSIGN_OR_RETURN(out.directory, parse_path(option, value));
    } else if (option == "table") {
      const size_t at = value.rfind('=');
      const std::string_view name = at == std::string_view::npos
                                        ? std::string_view()
                                        : value.substr(at + 1);
      if (at == 0 || !is_name(name)) {
        return unusable(option, value, "TABLE=NAME, such as shop.users=users");
      }
      if (!out.tables.emplace(name, value.substr(0, at)).second) {
        return unusable(option, value, "each name once");
      }
    } else if (option == "threads") {
      NIMBLE_ASSIGN_OR_RETURN(const uint64_t n,
                              parse_number(option, value, 1, kMaxThreads));
      out.threads = static_cast<uint32_t>(n);
    } else if (option == "max-keys") {
      NIMBLE_ASSIGN_OR_RETURN(out.commands.max_keys,
                              parse_number(option, value, 1, UINT32_MAX));
    } else if (option == "max-rows") {
      NIMBLE_ASSIGN_OR_RETURN(out.commands.max_rows,
                              parse_number(option, value, 1, UINT32_MAX));
    } else if (option == "max-reply-bytes") {
      // A string in a reply has at most 512 MiB.
      NIMBLE_ASSIGN_OR_RETURN(
          out.commands.max_reply_bytes,
          parse_number(option, value, 1024, uint64_t{512} << 20));
    } else if (option == "raw") {
      if (value != "yes" && value != "no") {
        return unusable(option, value, "yes or no");
      }
      out.commands.allow_raw = value == "yes";
    } else {
      return Status::invalid_argument(
          "unknown option '" + std::string(option.substr(0, 200)) +
          "'; expected lake, directory, table, threads, max-keys, max-rows, "
          "max-reply-bytes or raw");
    }
  }
  if (out.directory.empty() || out.tables.empty()) {
    return Status::invalid_argument(
        "a lake and its tables are needed, as in: lake /srv/lake table "
        "shop.users=users");
  }
  return out;
}

}  // namespace nimble
