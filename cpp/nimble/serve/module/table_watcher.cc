#include "nimble/serve/module/table_watcher.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>

namespace nimble {
namespace {

constexpr auto kPollPeriod = std::chrono::milliseconds(100);
// The most polls between two attempts to read a manifest that cannot be read.
constexpr uint64_t kMostWaits = 64;
constexpr uint64_t kUntilChanged = UINT64_MAX;
constexpr size_t kMaxCurrentBytes = size_t{1} << 20;
// Number of files to open before a snapshot is served. Requests open others.
constexpr size_t kOpenedAhead = 512;

bool is_below(const std::string& path, const std::string& directory) {
  return path.size() > directory.size() && path.starts_with(directory) &&
         path[directory.size()] == '/';
}

// Manifests have the absolute paths that their writer used, with or without
// symbolic links.
Status check_paths(const ServingManifest& manifest, const std::string& lake) {
  if (lake.empty()) return Status::ok();
  std::error_code error;
  const std::string real = std::filesystem::canonical(lake, error).string();
  for (const ServedFile& file : manifest.files) {
    const std::string path =
        std::filesystem::path(file.path).lexically_normal().string();
    if (is_below(path, lake) || (!error && is_below(path, real))) continue;
    return Status::invalid_argument(
        "its file " + file.path + " is not in " + lake +
        "; if the lake was moved, run nimble follow again; if its files are "
        "elsewhere, give the option directory instead of lake");
  }
  return Status::ok();
}

}  // namespace

TableWatcher::TableWatcher(const ModuleOptions& options,
                           std::function<void(const std::string&)> log)
    : options_(options), log_(std::move(log)) {
  state_.tables = std::make_shared<const ServedTables>();
}

Result<std::shared_ptr<const ServedTable>> TableWatcher::read(
    const std::string& name, const std::string& file) const {
  const auto at = options_.tables.find(name);
  if (at == options_.tables.end()) {
    return Status::not_found("NOTABLE no table '" + name + "' is served");
  }
  if (file.empty() || file[0] == '.' ||
      file.find_first_of(std::string_view("/\0", 2)) != std::string::npos) {
    return Status::invalid_argument("manifest '" + file +
                                    "': expected the name of a file in " +
                                    options_.directory);
  }
  auto read = ServingManifest::read(options_.directory + "/" + file);
  if (!read && read.error().os_error() == ENOENT) {
    return Status::invalid_argument(
        "manifest '" + file + "' is not in " + options_.directory +
        "; its file CURRENT names the manifests to serve, and nimble follow or "
        "nimble serve writes new ones");
  }
  NIMBLE_ASSIGN_OR_RETURN(ServingManifest manifest, std::move(read));
  Status status = check_paths(manifest, options_.lake);
  if (status && manifest.name != at->second) {
    status = Status::invalid_argument("it is of the table " + manifest.name +
                                      ", not of " + at->second);
  }
  if (!status) {
    return Status(status.code(), file + ": " + std::string(status.message()));
  }
  NIMBLE_ASSIGN_OR_RETURN(
      std::shared_ptr<const ServedTable> table,
      ServedTable::create(std::move(manifest), open_files_));
  NIMBLE_RETURN_IF_ERROR(check_new_files(name, *table));
  table->open_ahead(kOpenedAhead);
  return table;
}

Status TableWatcher::check_new_files(const std::string& name,
                                     const ServedTable& table) const {
  std::shared_ptr<const ServedTables> tables;
  {
    const std::lock_guard lock(mutex_);
    tables = state_.tables;
  }
  const auto last = tables->find(name);
  if (last == tables->end()) return Status::ok();
  std::set<std::string_view> known;
  for (const ServedFile& file : last->second->manifest().files) {
    known.insert(file.path);
  }
  for (const ServedFile& file : table.manifest().files) {
    struct stat st{};
    if (known.contains(file.path) || ::stat(file.path.c_str(), &st) == 0) {
      continue;
    }
    return Status::io_error(file.path + ": " + std::strerror(errno) +
                                "; the previous snapshot stays",
                            errno);
  }
  return Status::ok();
}

Result<TableWatcher::Files> TableWatcher::read_current() const {
  const std::string path = options_.directory + "/CURRENT";
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const int error = errno;
    return Status::io_error(
        path + ": " + std::strerror(error) +
            (error == ENOENT ? "; nimble follow or nimble serve writes it"
                             : ""),
        error);
  }
  std::string text(kMaxCurrentBytes + 1, '\0');
  size_t size = 0;
  ssize_t n = 1;
  while (n != 0 && size < text.size()) {
    n = ::read(fd, text.data() + size, text.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    size += static_cast<size_t>(n);
  }
  const int error = n < 0 ? errno : 0;
  ::close(fd);
  if (error != 0) {
    return Status::io_error(path + ": " + std::strerror(error), error);
  }
  if (size > kMaxCurrentBytes) {
    return Status::corrupt(path + ": more than " +
                           std::to_string(kMaxCurrentBytes) + " bytes");
  }
  text.resize(size);
  Files out;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line =
        std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    const size_t space = line.find(' ');
    if (space == std::string_view::npos) continue;
    out[std::string(line.substr(0, space))] = line.substr(space + 1);
  }
  return out;
}

std::optional<TableWatcher::Identity> TableWatcher::find_current() const {
  const std::string path = options_.directory + "/CURRENT";
  struct stat st{};
  if (::stat(path.c_str(), &st) != 0) return std::nullopt;
  return Identity{static_cast<uint64_t>(st.st_dev),
                  static_cast<uint64_t>(st.st_ino),
                  static_cast<uint64_t>(st.st_size),
#ifdef __APPLE__
                  st.st_mtimespec.tv_sec * 1000000000 + st.st_mtimespec.tv_nsec
#else
                  st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec
#endif
  };
}

Status TableWatcher::read_tables(bool* is_settled) {
  *is_settled = false;
  Result<Files> read_files = read_current();
  if (!read_files) {
    *is_settled = read_files.error().os_error() == ENOENT;
    return std::move(read_files).error();
  }
  const Files& files = *read_files;
  ServedTables changed;
  Status problem, missing;
  for (const auto& [name, of] : options_.tables) {
    const auto at = files.find(name);
    if (at == files.end() && listed_.contains(name)) {
      changed[name] = nullptr;
      loaded_.erase(name);
    }
    if (at == files.end()) {
      missing = Status::not_found(
          options_.directory + "/CURRENT has no line of '" + name +
          "'. If the table was not dropped or renamed: add --table " + of +
          "=" + name + " to nimble follow or nimble serve");
      continue;
    }
    if (const auto last = loaded_.find(name);
        last != loaded_.end() && last->second == at->second) {
      continue;
    }
    auto table = read(name, at->second);
    if (table) {
      changed[name] = *table;
      loaded_[name] = at->second;
    } else {
      problem = std::move(table).error();
    }
  }
  if (!changed.empty()) publish(changed);
  listed_ = files;
  NIMBLE_RETURN_IF_ERROR(std::move(problem));
  *is_settled = true;
  return missing;
}

void TableWatcher::poll() {
  const std::lock_guard read_lock(read_mutex_);
  std::vector<std::shared_ptr<const ServedTables>> retired;
  {
    const std::lock_guard lock(mutex_);
    retired.swap(retired_);
  }
  const std::optional<Identity> now = find_current();
  if (now != current_) {
    current_ = now;
    waits_ = 0;
    next_waits_ = 1;
  }
  if (waits_ > 0) {
    if (waits_ != kUntilChanged) --waits_;
    return;
  }
  bool is_settled = false;
  const Status status = read_tables(&is_settled);
  waits_ = is_settled ? kUntilChanged : next_waits_;
  next_waits_ = std::min(2 * next_waits_, kMostWaits);
  const std::string error(status.message());
  bool is_new = false;
  {
    const std::lock_guard lock(mutex_);
    if (!status) ++state_.failures;
    is_new = !status && error != state_.last_error;
    state_.last_error = error;
  }
  if (is_new) log_(error);
}

Status TableWatcher::load(const std::string& name, const std::string& file) {
  const std::lock_guard read_lock(read_mutex_);
  NIMBLE_ASSIGN_OR_RETURN(const std::shared_ptr<const ServedTable> table,
                          read(name, file));
  // Keeps this manifest until CURRENT names another one.
  if (const auto line = listed_.find(name); line != listed_.end()) {
    loaded_[name] = line->second;
  }
  publish({{name, table}});
  return Status::ok();
}

void TableWatcher::publish(const ServedTables& changed) {
  auto next = std::make_shared<ServedTables>(*state_.tables);
  for (const auto& [name, table] : changed) {
    if (table == nullptr) {
      next->erase(name);
    } else {
      (*next)[name] = table;
    }
  }
  std::shared_ptr<const ServedTables> unused = std::move(next);
  const std::lock_guard lock(mutex_);
  state_.tables.swap(unused);
  ++state_.swaps;
  has_next_.store(true, std::memory_order_release);
}

bool TableWatcher::take(std::shared_ptr<const ServedTables>* tables) {
  if (!has_next_.load(std::memory_order_acquire)) return false;
  const std::lock_guard lock(mutex_);
  retired_.push_back(*tables);
  *tables = state_.tables;
  has_next_.store(false, std::memory_order_relaxed);
  return true;
}

TableWatcher::State TableWatcher::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

Status TableWatcher::start() {
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    return Status::io_error("a thread cannot start: " + error.code().message(),
                            error.code().value());
  }
  return Status::ok();
}

void TableWatcher::run() {
  sigset_t all;
  ::sigfillset(&all);  // signals are for the server's threads
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::unique_lock lock(stop_mutex_);
  while (!stop_ready_.wait_for(lock, kPollPeriod,
                               [this] { return is_stopped_; })) {
    lock.unlock();
    try {
      poll();
    } catch (const std::exception&) {  // no memory; the next poll may succeed
    }
    lock.lock();
  }
}

void TableWatcher::stop() {
  {
    const std::lock_guard lock(stop_mutex_);
    is_stopped_ = true;
  }
  stop_ready_.notify_all();
  if (thread_.joinable()) thread_.join();
}

}  // namespace nimble
