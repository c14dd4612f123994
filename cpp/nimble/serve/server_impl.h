// Server::Impl: what the threads of a server share: options, counters, the
// served tables, and the jobs that loops hand to workers.
//
//   listen.cc      sockets
//   workers.cc     the queue of jobs, and the answers of all threads
//   lifecycle.cc   start, stop, and the functions of Server
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "nimble/serve/server.h"

namespace nimble {

using Clock = std::chrono::steady_clock;

inline constexpr size_t kBuckets = 24;  // of latencies
// A client with an empty buffer does not keep a larger one.
inline constexpr size_t kKeptBytes = 256 * 1024;
// Number of buffers of large replies to keep, because page faults of new memory
// cost more than copying a reply into it.
inline constexpr size_t kSpareBuffers = 4;
inline constexpr size_t kMaxSpareBytes = 2 * 1024 * 1024;

// Commands that are counted one by one.
inline constexpr std::array<std::string_view, 21> kCountedCommands = {
    "HGETALL",   "HMGET",    "HGET",        "EXISTS",    "HEXISTS",
    "HLEN",      "HKEYS",    "HVALS",       "TYPE",      "TTL",
    "NB.GET",    "NB.MGET",  "NB.HMGETALL", "NB.EXISTS", "NB.COUNT",
    "NB.PREFIX", "NB.RANGE", "NB.SCHEMA",   "NB.META",   "NB.TABLES",
    "other"};

// Descriptors with this number and above are for files, not for clients:
// otherwise clients could keep the server from opening a new snapshot.
int descriptors_for_clients();

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }
  void reset() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

// The first 32 bytes of a word, in upper case.
std::string upper_of(std::string_view text);

// The failure of a system call, from errno.
Status failed(const std::string& what);

using Words = std::vector<std::string>;

class Server::Impl {
 public:
  struct Counters {
    std::atomic<uint64_t> clients{0}, accepted{0}, rejected{0}, errors{0},
        busy{0}, bytes_in{0}, bytes_out{0}, swaps{0}, nanos{0}, held{0};
    std::array<std::atomic<uint64_t>, kBuckets> latency{};
    std::array<std::atomic<uint64_t>, kCountedCommands.size()> by_command{};
  };

  Impl(ServerOptions o, std::shared_ptr<const ServedTables> tables)
      : options(std::move(o)),
        tables_(std::move(tables)),
        process_(::getpid()) {}

  Status listen();
  Status start_threads();
  void stop(double seconds);
  bool is_parent() const { return ::getpid() == process_; }

  std::shared_ptr<const ServedTables> tables() const {
    const std::lock_guard lock(tables_mutex_);
    return tables_;
  }
  void swap(std::shared_ptr<const ServedTables> next) {
    {
      const std::lock_guard lock(tables_mutex_);
      tables_.swap(next);
    }
    version.fetch_add(1, std::memory_order_release);
    counters.swaps.fetch_add(1, std::memory_order_relaxed);
    // `next` now has the old tables. Its destructor may close files.
  }

  // A command, or the commands of a MULTI block, for a worker to answer. Jobs
  // move from list to list as nodes, so handing over an answer needs no memory.
  struct Job {
    class Loop* loop = nullptr;
    uint64_t client = 0;
    bool resp3 = false;
    bool is_block = false;
    std::vector<Words> commands;
    uint64_t bytes = 0;  // of the commands
    std::shared_ptr<const ServedTables> tables;
    std::string reply;
    bool has_failed = false;  // there is no reply: close the connection
  };
  using Jobs = std::list<Job>;
  // Takes the only job of the list. Returns false if the queue is full.
  bool submit(Jobs* job);
  // Answers a command and appends the reply to *out.
  // *now is the time, which is set again.
  void answer(const ServedTables& tables,
              std::span<const std::string_view> arguments,
              CommandScratch* scratch, RespReply* reply, std::string* out,
              Clock::time_point* now);
  void answer_block(const Job& job, CommandScratch* scratch, std::string* out);
  // Returns an empty buffer.
  std::string take_buffer() {
    const std::lock_guard lock(spare_mutex_);
    if (spare_.empty()) return {};
    std::string out = std::move(spare_.back());
    spare_.pop_back();
    return out;
  }
  // Keeps the memory of a large buffer for the next large reply.
  void keep_buffer(std::string buffer) {
    if (buffer.capacity() <= kKeptBytes || buffer.capacity() > kMaxSpareBytes) {
      return;
    }
    buffer.clear();
    const std::lock_guard lock(spare_mutex_);
    if (spare_.size() < kSpareBuffers) spare_.push_back(std::move(buffer));
  }

  const ServerOptions options;
  std::atomic<uint64_t> version{0};
  std::atomic<bool> stopping{false}, ending{false};
  Counters counters;
  std::vector<Descriptor> listeners;
  const int client_descriptors = descriptors_for_clients();
  uint16_t port = 0;

 private:
  void work();

  mutable std::mutex tables_mutex_;
  std::shared_ptr<const ServedTables> tables_;
  const pid_t process_;
  std::mutex stop_mutex_;
  std::mutex jobs_mutex_;
  std::condition_variable jobs_ready_;
  Jobs jobs_;
  uint64_t jobs_bytes_ = 0;
  std::mutex spare_mutex_;
  std::vector<std::string> spare_;
  std::vector<std::unique_ptr<class Loop>> loops_;
  std::vector<std::thread> threads_, workers_;
  std::atomic<size_t> running_loops_{0};
  dev_t unix_device_ = 0;
  ino_t unix_inode_ = 0;
  friend class Loop;
};

}  // namespace nimble
