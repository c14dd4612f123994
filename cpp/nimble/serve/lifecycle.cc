// Starts and stops a server: its threads, the swap of tables, and its figures.
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <system_error>

#include "nimble/serve/loop.h"

namespace nimble {
namespace {

constexpr int kReservedDescriptors = 64;

Status no_threads(const std::system_error& error) {
  return Status::io_error(
      "a server's threads cannot start: " + std::string(error.code().message()),
      error.code().value());
}

}  // namespace

int descriptors_for_clients() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
      limit.rlim_cur > static_cast<rlim_t>(INT_MAX)) {
    return INT_MAX;
  }
  const int all = static_cast<int>(limit.rlim_cur);
  return all - std::min(kReservedDescriptors, all / 4);
}

Status failed(const std::string& what) {
  const int error = errno;
  return Status::io_error(what + ": " + std::strerror(error), error);
}

Status Server::Impl::start_threads() {
  for (uint32_t i = 0; i < std::max(1u, options.loop_threads); ++i) {
    auto loop = std::make_unique<Loop>(this);
    NIMBLE_RETURN_IF_ERROR(loop->open());
    loops_.push_back(std::move(loop));
  }
  // If a thread cannot start, fewer threads are used. But one of each kind is
  // needed.
  const uint32_t workers = std::max(1u, options.workers);
  workers_.reserve(workers);
  threads_.reserve(loops_.size());
  try {
    for (uint32_t i = 0; i < workers; ++i) {
      workers_.emplace_back([this] { work(); });
    }
  } catch (const std::system_error& error) {
    if (workers_.empty()) return no_threads(error);
  }
  for (const auto& loop : loops_) {
    running_loops_.fetch_add(1);
    try {
      threads_.emplace_back([this, at = loop.get()] {
        at->run();
        running_loops_.fetch_sub(1);
      });
    } catch (const std::system_error& error) {
      running_loops_.fetch_sub(1);
      if (!threads_.empty()) break;
      return no_threads(error);
    }
  }
  return Status::ok();
}

void Server::Impl::stop(double seconds) {
  if (!is_parent()) return;
  const std::lock_guard stop_lock(stop_mutex_);
  if (ending.load()) return;
  stopping.store(true);
  const auto until =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(
                         std::chrono::duration<double>(std::max(0.0, seconds)));
  for (const auto& loop : loops_) loop->wake();
  while (running_loops_.load() > 0 && Clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  {
    const std::lock_guard lock(jobs_mutex_);
    ending.store(true);
    jobs_.clear();
    jobs_bytes_ = 0;
  }
  jobs_ready_.notify_all();
  for (const auto& loop : loops_) loop->wake();
  for (std::thread& t : threads_) t.join();
  for (std::thread& t : workers_) t.join();
  for (const Descriptor& l : listeners) ::shutdown(l.get(), SHUT_RDWR);
  listeners.clear();
  // Removes only this server's socket: another server may have replaced it.
  struct stat st{};
  if (!options.unix_path.empty() &&
      ::lstat(options.unix_path.c_str(), &st) == 0 &&
      st.st_dev == unix_device_ && st.st_ino == unix_inode_) {
    ::unlink(options.unix_path.c_str());
  }
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() {
  if (!impl_->is_parent()) {
    // The threads do not exist in this process, and joining them would never
    // return.
    [[maybe_unused]] Impl* const leaked = impl_.release();
    return;
  }
  impl_->stop(0);
}

Result<std::unique_ptr<Server>> Server::start(
    ServerOptions options, std::shared_ptr<const ServedTables> tables) {
  std::unique_ptr<Server> out(new Server(
      std::make_unique<Impl>(std::move(options), std::move(tables))));
  NIMBLE_RETURN_IF_ERROR(out->impl_->listen());
  NIMBLE_RETURN_IF_ERROR(out->impl_->start_threads());
  return out;
}

uint16_t Server::port() const { return impl_->port; }

void Server::swap(std::shared_ptr<const ServedTables> tables) {
  impl_->swap(std::move(tables));
}

ServerStats Server::stats() const {
  const Impl::Counters& c = impl_->counters;
  ServerStats out;
  out.clients = c.clients.load();
  out.accepted = c.accepted.load();
  out.rejected = c.rejected.load();
  out.errors = c.errors.load();
  out.busy = c.busy.load();
  out.bytes_in = c.bytes_in.load();
  out.bytes_out = c.bytes_out.load();
  out.swaps = c.swaps.load();
  out.seconds = static_cast<double>(c.nanos.load()) * 1e-9;
  for (const auto& bucket : c.latency) out.latency.push_back(bucket.load());
  for (size_t i = 0; i < kCountedCommands.size(); ++i) {
    out.by_command.emplace_back(kCountedCommands[i], c.by_command[i].load());
    out.commands += out.by_command.back().second;
  }
  return out;
}

void Server::stop(double seconds) { impl_->stop(seconds); }

}  // namespace nimble
