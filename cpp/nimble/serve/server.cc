#include "nimble/serve/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <list>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>

namespace nimble {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kReadBytes = 64 * 1024;
constexpr size_t kBuckets = 24;
constexpr int kTickMillis = 200;
constexpr int kReservedDescriptors = 64;
// After this many commands of a pipeline, other clients are served.
constexpr size_t kCommandsAtOnce = 1024;
constexpr size_t kMaxQueuedInMulti = 1024;
// A client with an empty buffer does not keep a larger one.
constexpr size_t kKeptBytes = 256 * 1024;
// Number of buffers of large replies to keep, because page faults of new memory
// cost more than copying a reply into it.
constexpr size_t kSpareBuffers = 4;
constexpr size_t kMaxSpareBytes = 2 * 1024 * 1024;

constexpr std::array<std::string_view, 21> kNames = {
    "HGETALL",   "HMGET",    "HGET",        "EXISTS",    "HEXISTS",
    "HLEN",      "HKEYS",    "HVALS",       "TYPE",      "TTL",
    "NB.GET",    "NB.MGET",  "NB.HMGETALL", "NB.EXISTS", "NB.COUNT",
    "NB.PREFIX", "NB.RANGE", "NB.SCHEMA",   "NB.META",   "NB.TABLES",
    "other"};

size_t number_of(std::string_view name) {
  for (size_t i = 0; i + 1 < kNames.size(); ++i) {
    if (name == kNames[i]) return i;
  }
  return kNames.size() - 1;
}

// Descriptors with this number and above are for files, not for clients:
// otherwise clients could keep the server from opening a new snapshot.
int descriptors_for_clients() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
      limit.rlim_cur > static_cast<rlim_t>(INT_MAX)) {
    return INT_MAX;
  }
  const int all = static_cast<int>(limit.rlim_cur);
  return all - std::min(kReservedDescriptors, all / 4);
}

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

Status failed(const std::string& what) {
  const int error = errno;
  return Status::io_error(what + ": " + std::strerror(error), error);
}

Status no_threads(const std::system_error& error) {
  return Status::io_error(
      "a server's threads cannot start: " + std::string(error.code().message()),
      error.code().value());
}

// Takes a time that does not depend on where the texts differ.
bool same_secret(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    const char other = b.empty() ? '\0' : b[i % b.size()];
    difference |= static_cast<unsigned>(static_cast<uint8_t>(a[i] ^ other));
  }
  return difference == 0;
}

using Words = std::vector<std::string>;

// Approximate memory of a copy of a command.
uint64_t memory_of(std::span<const std::string_view> arguments) {
  uint64_t bytes = sizeof(Words);
  for (const std::string_view a : arguments) {
    bytes += sizeof(std::string) + a.size();
  }
  return bytes;
}

struct Client {
  int fd = -1;
  uint64_t id = 0;
  std::string in, out;
  size_t sent = 0;     // bytes of `out`
  size_t read_at = 0;  // bytes of `in` that were answered
  bool is_authentic = false;
  bool resp3 = false;
  bool is_closing = false;  // after `out` is sent
  bool is_waiting = false;  // for a worker
  bool is_ended = false;    // the peer will not send more
  bool is_gone = false;     // the peer does not read replies
  bool wants_write = false;
  bool is_stalled = false;  // commands wait until replies are sent
  bool is_again = false;    // in the loop's list of clients to serve again
  bool in_multi = false;
  bool multi_failed = false;
  std::vector<Words> queued;  // of MULTI
  uint64_t queued_bytes = 0;
  RespParser parser;
  std::string name;
  Clock::time_point active;
  uint32_t events = EPOLLIN;
  uint64_t counted_unsent = 0;  // of the server's count

  size_t unsent() const { return out.size() - sent; }
  void end_multi() {
    std::vector<Words>().swap(queued);
    queued_bytes = 0;
    in_multi = multi_failed = false;
  }
  // Remembers that EXEC must fail, and frees the queued commands.
  void fail_multi() {
    end_multi();
    in_multi = multi_failed = true;
  }
};

}  // namespace

class Server::Impl {
 public:
  struct Counters {
    std::atomic<uint64_t> clients{0}, accepted{0}, rejected{0}, errors{0},
        busy{0}, bytes_in{0}, bytes_out{0}, swaps{0}, nanos{0}, unsent{0};
    std::array<std::atomic<uint64_t>, kBuckets> latency{};
    std::array<std::atomic<uint64_t>, kNames.size()> by_command{};
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

// One thread, with the connections that it accepted.
class Loop {
 public:
  explicit Loop(Server::Impl* server) : server_(*server) {}
  Status open();
  void run();
  // Takes the only job of the list.
  void complete(Server::Impl::Jobs* job) {
    {
      const std::lock_guard lock(mutex_);
      completed_.splice(completed_.end(), *job);
    }
    wake();
  }
  void wake() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(event_.get(), &one, sizeof one);
  }

 private:
  void accept_from(int listener);
  void read_from(Client* c);
  // Answers the commands that were received, until the reply buffer is full.
  void answer(Client* c);
  // Handles one command of a connection: handshakes, MULTI, and all others.
  void handle(Client* c, std::span<const std::string_view> arguments);
  bool handle_session(Client* c, std::span<const std::string_view> arguments,
                      RespReply* reply);
  void hello(Client* c, std::span<const std::string_view> arguments,
             RespReply* reply);
  void submit(Client* c, std::vector<Words> commands, bool is_block,
              RespReply* reply);
  // Sends replies and registers for the next events. Returns false if the
  // connection must be closed.
  bool flush(Client* c);
  void update(Client* c);
  void count_unsent(Client* c, uint64_t unsent);
  // Serves the client again after all others.
  void serve_again(Client* c) {
    if (!c->is_again) again_.push_back(c->id);
    c->is_again = true;
  }
  void close_socket(int fd);
  void close(uint64_t id);
  // Answers and sends as much as possible. If memory runs out, closes the
  // connection, because its state is then unknown.
  void serve(Client* c, uint32_t events);
  void take_completed();
  void wait_and_serve(Clock::time_point* last_tick);
  void tick();
  void refresh_tables() {
    const uint64_t now = server_.version.load(std::memory_order_acquire);
    if (tables_ == nullptr || now != version_) {
      tables_ = server_.tables();
      version_ = now;
    }
  }

  Server::Impl& server_;
  Descriptor epoll_, event_;
  std::mutex mutex_;
  Server::Impl::Jobs completed_;
  std::unordered_map<uint64_t, std::unique_ptr<Client>> clients_;
  std::shared_ptr<const ServedTables> tables_;
  uint64_t version_ = 0;
  CommandScratch scratch_;
  std::vector<std::string_view> arguments_;
  Clock::time_point now_;  // the end of the command before, or of a wait
  std::vector<char> buffer_ = std::vector<char>(kReadBytes);
  Clock::time_point resume_accept_{};
  bool is_accepting_ = false;
  // clients with commands that are not answered yet
  std::vector<uint64_t> again_;

  static std::atomic<uint64_t> next_id_;
  static constexpr uint64_t kEvent = 0;  // ids of listeners and clients follow
  static constexpr uint64_t kFirstClient = 1024;
};

std::atomic<uint64_t> Loop::next_id_{Loop::kFirstClient};

// ---- the loop

Status Loop::open() {
  epoll_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  event_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (epoll_.get() < 0 || event_.get() < 0) return failed("epoll");
  epoll_event e{};
  e.events = EPOLLIN;
  e.data.u64 = kEvent;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, event_.get(), &e) != 0) {
    return failed("epoll");
  }
  return Status::ok();
}

void Loop::run() {
  Clock::time_point last_tick = Clock::now();
  tick();  // begins to accept
  while (!server_.ending.load() &&
         !(server_.stopping.load() && clients_.empty())) {
    try {
      wait_and_serve(&last_tick);
    } catch (const std::exception&) {  // no memory
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  for (auto& [id, client] : clients_) close_socket(client->fd);
  server_.counters.clients.fetch_sub(clients_.size());
  clients_.clear();
  tables_.reset();
}

void Loop::wait_and_serve(Clock::time_point* last_tick) {
  std::array<epoll_event, 64> events;
  const int timeout = again_.empty() ? kTickMillis : 0;
  const int n = ::epoll_wait(epoll_.get(), events.data(),
                             static_cast<int>(events.size()), timeout);
  refresh_tables();
  for (int i = 0; i < n; ++i) {
    const uint64_t id = events[static_cast<size_t>(i)].data.u64;
    if (id == kEvent) {
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t got =
          ::read(event_.get(), &count, sizeof count);
      take_completed();
    } else if (id < kFirstClient) {
      accept_from(server_.listeners[id - 1].get());
    } else if (const auto at = clients_.find(id); at != clients_.end()) {
      serve(at->second.get(), events[static_cast<size_t>(i)].events);
    }
  }
  std::vector<uint64_t> again;
  again.swap(again_);
  for (const uint64_t id : again) {
    const auto at = clients_.find(id);
    if (at == clients_.end()) continue;
    at->second->is_again = false;
    serve(at->second.get(), 0);
  }
  const Clock::time_point now = Clock::now();
  if (now - *last_tick >= std::chrono::milliseconds(kTickMillis) ||
      server_.stopping.load()) {
    *last_tick = now;
    tick();
  }
}

void Loop::serve(Client* c, uint32_t events) {
  const uint64_t id = c->id;
  bool stays = false;
  try {
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read_from(c);
    answer(c);
    stays = flush(c);
  } catch (const std::exception&) {  // no memory
    server_.counters.errors.fetch_add(1, std::memory_order_relaxed);
  }
  if (!stays) close(id);
}

void Loop::tick() {
  const Clock::time_point now = Clock::now();
  const bool accepts = !server_.stopping.load() && now >= resume_accept_;
  if (accepts != is_accepting_) {
    for (size_t i = 0; i < server_.listeners.size(); ++i) {
      epoll_event e{};
      e.events = EPOLLIN | EPOLLEXCLUSIVE;
      e.data.u64 = i + 1;
      ::epoll_ctl(epoll_.get(), accepts ? EPOLL_CTL_ADD : EPOLL_CTL_DEL,
                  server_.listeners[i].get(), &e);
    }
    is_accepting_ = accepts;
  }
  std::vector<uint64_t> ended;
  const auto idle = std::chrono::seconds(server_.options.idle_seconds);
  const auto stuck = std::chrono::seconds(server_.options.unread_seconds);
  for (const auto& [id, c] : clients_) {
    const bool is_idle = server_.options.idle_seconds > 0 && !c->is_waiting &&
                         now - c->active > idle;
    const bool is_done = server_.stopping.load() && !c->is_waiting &&
                         c->unsent() == 0 && !c->is_again;
    // The client does not read, and its replies take memory.
    const bool is_stuck = c->unsent() >= server_.options.max_unsent_bytes &&
                          now - c->active > stuck;
    if (is_idle || is_done || is_stuck) ended.push_back(id);
  }
  for (const uint64_t id : ended) close(id);
}

void Loop::accept_from(int listener) {
  // Accepts a few connections at a time, so that other loops and clients do not
  // wait long.
  for (int i = 0; i < 16; ++i) {
    const int fd =
        ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
          errno == ENOBUFS) {
        resume_accept_ = Clock::now() + std::chrono::milliseconds(500);
        tick();
      }
      return;
    }
    server_.counters.accepted.fetch_add(1, std::memory_order_relaxed);
    // The system gives the lowest free number, so all lower ones are in use.
    const bool needs_reserve = fd >= server_.client_descriptors;
    if (needs_reserve ||
        server_.counters.clients.load() >= server_.options.max_clients) {
      server_.counters.rejected.fetch_add(1, std::memory_order_relaxed);
      const std::string_view full =
          needs_reserve ? "-BUSY the server has too few file descriptors for "
                          "more clients; raise ulimit -n\r\n"
                        : "-ERR max number of clients reached\r\n";
      [[maybe_unused]] const ssize_t n =
          ::send(fd, full.data(), full.size(), MSG_NOSIGNAL);
      ::close(fd);
      continue;
    }
    const int one = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    std::unique_ptr<Client> client;
    try {
      client = std::make_unique<Client>();
      client->id = next_id_.fetch_add(1);
      clients_.emplace(client->id, nullptr);
    } catch (const std::bad_alloc&) {
      ::close(fd);
      continue;
    }
    client->fd = fd;
    client->is_authentic = server_.options.token.empty();
    client->active = Clock::now();
    epoll_event e{};
    e.events = client->events;
    e.data.u64 = client->id;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &e) != 0) {
      clients_.erase(client->id);
      ::close(fd);
      continue;
    }
    server_.counters.clients.fetch_add(1);
    clients_[e.data.u64] = std::move(client);
  }
}

void Loop::read_from(Client* c) {
  if (c->is_ended || c->is_closing || (c->events & EPOLLIN) == 0) {
    // The event can only be an error or a hang-up.
    char byte = 0;
    const ssize_t n = ::recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
      c->is_gone = true;  // even if a worker is still answering it
    }
    return;
  }
  const ssize_t n = ::read(c->fd, buffer_.data(), buffer_.size());
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    c->is_ended = true;
    return;
  }
  c->active = Clock::now();
  c->in.append(buffer_.data(), static_cast<size_t>(n));
  server_.counters.bytes_in.fetch_add(static_cast<uint64_t>(n),
                                      std::memory_order_relaxed);
}

void Loop::answer(Client* c) {
  const ServerOptions& options = server_.options;
  // Before a client sends its token, it may not make the server use much
  // memory.
  RespLimits limits = options.resp;
  if (!c->is_authentic) {
    limits.max_arguments = 16;
    limits.max_argument_bytes = 4096;
    limits.max_inline_bytes = 4096;
  }
  size_t answered = 0;
  now_ = Clock::now();
  while (!c->is_waiting && !c->is_closing &&
         c->unsent() < options.max_unsent_bytes) {
    const std::string_view left = std::string_view(c->in).substr(c->read_at);
    size_t used = 0;
    std::string problem;
    const RespState state =
        c->parser.next(left, limits, &arguments_, &used, &problem);
    if (state == RespState::kIncomplete) break;
    if (state == RespState::kBroken) {
      RespReply(&c->out).error("ERR Protocol error: " + problem);
      c->is_closing = true;
      break;
    }
    c->read_at += used;
    if (!arguments_.empty()) handle(c, arguments_);
    if (!c->is_authentic) continue;
    limits = options.resp;
    if (++answered == kCommandsAtOnce) {
      serve_again(c);
      break;
    }
  }
  c->is_stalled = !c->is_waiting && !c->is_closing &&
                  c->unsent() >= options.max_unsent_bytes &&
                  c->read_at < c->in.size();
  if (c->read_at == c->in.size()) {
    c->in.clear();
    c->read_at = 0;
    if (c->in.capacity() > kKeptBytes) c->in.shrink_to_fit();
  } else if (c->read_at > kReadBytes) {
    c->in.erase(0, c->read_at);
    c->read_at = 0;
  }
}

void Loop::handle(Client* c, std::span<const std::string_view> arguments) {
  RespReply reply(&c->out);
  reply.resp3 = c->resp3;
  if (handle_session(c, arguments, &reply)) return;
  if (!c->is_authentic) {
    server_.counters.errors.fetch_add(1, std::memory_order_relaxed);
    reply.error("NOAUTH Authentication required.");
    return;
  }
  if (c->in_multi) {
    const uint64_t bytes = memory_of(arguments);
    const uint64_t most = server_.options.resp.max_command_bytes;
    if (c->queued.size() >= kMaxQueuedInMulti || bytes > most ||
        c->queued_bytes > most - bytes) {
      c->fail_multi();
      reply.error("TOOBIG MULTI: more than " +
                  std::to_string(kMaxQueuedInMulti) + " commands or " +
                  std::to_string(most) + " bytes");
      return;
    }
    if (!c->multi_failed) {
      c->queued.emplace_back(arguments.begin(), arguments.end());
      c->queued_bytes += bytes;
    }
    reply.simple("QUEUED");
    return;
  }
  if (is_long_command(arguments, tables_.get())) {
    std::vector<Words> commands;
    commands.emplace_back(arguments.begin(), arguments.end());
    submit(c, std::move(commands), false, &reply);
    return;
  }
  server_.answer(*tables_, arguments, &scratch_, &reply, &c->out, &now_);
}

void Loop::submit(Client* c, std::vector<Words> commands, bool is_block,
                  RespReply* reply) {
  uint64_t bytes = 0;
  for (const Words& words : commands) {
    bytes +=
        memory_of(std::vector<std::string_view>(words.begin(), words.end()));
  }
  const auto refuse = [&](const std::string& why) {
    server_.counters.busy.fetch_add(1, std::memory_order_relaxed);
    server_.counters.errors.fetch_add(1, std::memory_order_relaxed);
    reply->error("BUSY " + why + "; try again later");
  };
  const uint64_t unsent = server_.counters.unsent.load();
  if (unsent > server_.options.max_unsent_of_all) {
    refuse("clients have not read " + std::to_string(unsent) +
           " bytes of replies");
    return;
  }
  Server::Impl::Jobs job(1);
  job.front() = {this,  c->id,   c->resp3, is_block, std::move(commands),
                 bytes, tables_, {},       false};
  if (server_.submit(&job)) {
    c->is_waiting = true;
    return;
  }
  refuse(std::to_string(server_.options.max_queued) +
         " long commands are waiting already");
}

namespace {

std::string upper_of(std::string_view text) {
  std::string out(text.substr(0, 32));
  for (char& ch : out) {
    if (ch >= 'a' && ch <= 'z') ch = static_cast<char>(ch - 32);
  }
  return out;
}

}  // namespace

void Loop::hello(Client* c, std::span<const std::string_view> arguments,
                 RespReply* reply) {
  bool resp3 = c->resp3, is_authentic = c->is_authentic;
  std::string name = c->name;
  for (size_t i = 1; i < arguments.size(); ++i) {
    const std::string word = upper_of(arguments[i]);
    const size_t left = arguments.size() - i - 1;
    if (i == 1) {
      if (word != "2" && word != "3") {
        reply->error("NOPROTO unsupported protocol version");
        return;
      }
      resp3 = word == "3";
    } else if (word == "AUTH" && left >= 2) {
      if (!server_.options.token.empty() &&
          !same_secret(arguments[i + 2], server_.options.token)) {
        reply->error("WRONGPASS invalid username-password pair");
        return;
      }
      is_authentic = true;
      i += 2;
    } else if (word == "SETNAME" && left >= 1) {
      name = arguments[++i];
    } else {
      reply->error("ERR Syntax error in HELLO");
      return;
    }
  }
  if (!is_authentic) {
    reply->error(
        "NOAUTH HELLO must be called with the client already authenticated, "
        "otherwise the HELLO <proto> AUTH <user> <pass> option can be used");
    return;
  }
  c->resp3 = reply->resp3 = resp3;
  c->is_authentic = is_authentic;
  c->name = name.substr(0, 256);
  reply->map(7);
  reply->text("server");
  reply->text("nimble");
  reply->text("version");
  reply->text("7.0.0");  // of Redis; clients choose features by it
  reply->text("proto");
  reply->integer(resp3 ? 3 : 2);
  reply->text("id");
  reply->integer(static_cast<int64_t>(c->id));
  reply->text("mode");
  reply->text("standalone");
  reply->text("role");
  reply->text("master");
  reply->text("modules");
  reply->array(0);
}

namespace {

// Commands of a session. Other commands are recognized by their length and
// first letter, without a copy of their name.
constexpr std::array<std::string_view, 9> kSessionNames = {
    "HELLO",   "AUTH",  "QUIT",  "MULTI", "EXEC",
    "DISCARD", "RESET", "WATCH", "CLIENT"};

bool may_be_of_session(std::string_view name) {
  const char first = name.empty() ? '\0' : static_cast<char>(name[0] & ~0x20);
  return std::any_of(kSessionNames.begin(), kSessionNames.end(),
                     [&](std::string_view of) {
                       return of.size() == name.size() && of[0] == first;
                     });
}

}  // namespace

bool Loop::handle_session(Client* c,
                          std::span<const std::string_view> arguments,
                          RespReply* reply) {
  if (!may_be_of_session(arguments[0])) return false;
  const std::string name = upper_of(arguments[0]);
  const size_t n = arguments.size();
  const auto refuse_in_multi = [&] {
    c->fail_multi();
    reply->error("ERR " + name + " is not allowed in MULTI");
  };
  if (name == "HELLO") {
    if (c->in_multi) {
      refuse_in_multi();
    } else {
      hello(c, arguments, reply);
    }
    return true;
  }
  if (name == "AUTH" && (n == 2 || n == 3)) {
    if (c->in_multi) {
      refuse_in_multi();
    } else if (server_.options.token.empty()) {
      reply->error("ERR AUTH called without any password configured");
    } else if (same_secret(arguments[n - 1], server_.options.token)) {
      c->is_authentic = true;
      reply->simple("OK");
    } else {
      reply->error("WRONGPASS invalid username-password pair");
    }
    return true;
  }
  if (name == "QUIT") {
    reply->simple("OK");
    c->is_closing = true;
    return true;
  }
  if (!c->is_authentic) return false;
  if (name == "MULTI") {
    if (c->in_multi) {
      reply->error("ERR MULTI calls can not be nested");
    } else {
      c->in_multi = true;
      reply->simple("OK");
    }
    return true;
  }
  if (name == "EXEC" || name == "DISCARD") {
    if (!c->in_multi) {
      reply->error("ERR " + name + " without MULTI");
      return true;
    }
    std::vector<Words> commands = std::move(c->queued);
    const bool has_failed = c->multi_failed;
    c->end_multi();
    if (name == "DISCARD") {
      reply->simple("OK");
    } else if (has_failed) {
      reply->error(
          "EXECABORT Transaction discarded because of previous errors.");
    } else {
      submit(c, std::move(commands), true, reply);
    }
    return true;
  }
  if (name == "RESET") {
    c->end_multi();
    c->resp3 = reply->resp3 = false;
    c->is_authentic = server_.options.token.empty();
    c->name.clear();
    reply->simple("RESET");
    return true;
  }
  if (name == "WATCH") {
    if (c->in_multi) {
      reply->error("ERR WATCH inside MULTI is not allowed");
    } else {
      reply->simple("OK");  // within a block, watched keys cannot change
    }
    return true;
  }
  if (name == "CLIENT" && n >= 2) {
    if (c->in_multi) {
      refuse_in_multi();
      return true;
    }
    const std::string what = upper_of(arguments[1]);
    if (what == "SETNAME" && n == 3) {
      c->name = arguments[2].substr(0, 256);
      reply->simple("OK");
    } else if (what == "GETNAME") {
      reply->text(c->name);
    } else if (what == "ID") {
      reply->integer(static_cast<int64_t>(c->id));
    } else if (what == "SETINFO" || what == "NO-EVICT" || what == "NO-TOUCH") {
      reply->simple("OK");
    } else {
      reply->error("ERR unknown subcommand of CLIENT");
    }
    return true;
  }
  return false;
}

namespace {

// Answers commands about the server that do not depend on a connection. Returns
// whether the command is one of them.
bool answer_about_server(std::string_view name,
                         std::span<const std::string_view> arguments,
                         const ServedTables& tables, RespReply* reply) {
  const size_t n = arguments.size();
  if (name == "PING" && n <= 2) {
    if (n > 1) {
      reply->text(arguments[1]);
    } else {
      reply->simple("PONG");
    }
    return true;
  }
  if (name == "ECHO" && n == 2) {
    reply->text(arguments[1]);
    return true;
  }
  if (name == "SELECT" && n == 2) {
    if (arguments[1] == "0") {
      reply->simple("OK");
    } else {
      reply->error("ERR DB index is out of range");
    }
    return true;
  }
  if (name == "UNWATCH" || name == "READONLY" || name == "READWRITE") {
    reply->simple("OK");
    return true;
  }
  if (name == "COMMAND") {
    if (n > 1 && upper_of(arguments[1]) == "COUNT") {
      reply->integer(static_cast<int64_t>(kNames.size() - 1));
    } else {
      reply->array(0);
    }
    return true;
  }
  if (name == "DBSIZE") {
    uint64_t rows = 0;
    for (const auto& [key, table] : tables) rows += table->num_rows();
    reply->integer(static_cast<int64_t>(rows));
    return true;
  }
  if (name == "INFO") {
    reply->text(
        "# Server\r\nredis_version:7.0.0\r\nserver_name:nimble\r\n"
        "redis_mode:standalone\r\n# Replication\r\nrole:master\r\n"
        "# Keyspace\r\n");
    return true;
  }
  return false;
}

}  // namespace

bool Loop::flush(Client* c) {
  if (c->is_gone) return false;
  while (c->unsent() > 0) {
    const ssize_t n =
        ::send(c->fd, c->out.data() + c->sent, c->unsent(), MSG_NOSIGNAL);
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return false;
      break;
    }
    c->sent += static_cast<size_t>(n);
    c->active = Clock::now();
    server_.counters.bytes_out.fetch_add(static_cast<uint64_t>(n),
                                         std::memory_order_relaxed);
  }
  if (c->unsent() == 0) {
    c->out.clear();
    c->sent = 0;
    if (c->out.capacity() > kKeptBytes) {
      server_.keep_buffer(std::exchange(c->out, {}));
    }
    if (c->is_stalled) {
      // All bytes of the client may have been read already, so another event
      // may not follow.
      c->is_stalled = false;
      serve_again(c);
      update(c);
      return true;
    }
    if (!c->is_waiting) {
      if (c->is_closing) return false;
      // Closes the connection when all complete commands are answered.
      if (c->is_ended && !c->is_again) return false;
    }
  }
  update(c);
  return true;
}

void Loop::update(Client* c) {
  count_unsent(c, c->unsent());
  c->wants_write = c->unsent() > 0;
  // Does not read from a client that does not read its replies, that waits for
  // a reply, or whose commands are not all answered.
  const bool reads = !c->is_closing && !c->is_ended && !c->is_waiting &&
                     !c->is_again &&
                     c->unsent() < server_.options.max_unsent_bytes;
  const uint32_t events =
      (reads ? EPOLLIN : 0u) | (c->wants_write ? EPOLLOUT : 0u);
  if (events == c->events) return;
  c->events = events;
  epoll_event e{};
  e.events = events;
  e.data.u64 = c->id;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, c->fd, &e);
}

void Loop::count_unsent(Client* c, uint64_t unsent) {
  if (unsent == c->counted_unsent) return;
  // The difference may be negative; the sum of all differences is not.
  server_.counters.unsent.fetch_add(unsent - c->counted_unsent,
                                    std::memory_order_relaxed);
  c->counted_unsent = unsent;
}

// Unregisters and shuts down the socket first: a forked process may have it
// too, and closing it here would leave it registered and connected.
void Loop::close_socket(int fd) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  ::shutdown(fd, SHUT_RDWR);
  ::close(fd);
}

void Loop::close(uint64_t id) {
  const auto at = clients_.find(id);
  if (at == clients_.end()) return;
  count_unsent(at->second.get(), 0);
  close_socket(at->second->fd);
  clients_.erase(at);
  server_.counters.clients.fetch_sub(1);
}

void Loop::take_completed() {
  Server::Impl::Jobs completed;
  {
    const std::lock_guard lock(mutex_);
    completed.swap(completed_);
  }
  for (Server::Impl::Job& job : completed) {
    const auto at = clients_.find(job.client);
    if (at == clients_.end()) continue;  // the client has disconnected
    Client* const c = at->second.get();
    c->is_waiting = false;
    if (job.has_failed) {
      close(job.client);
    } else if (c->out.empty()) {
      c->out = std::move(job.reply);
      serve(c, 0);
    } else {
      try {
        c->out += job.reply;
        serve(c, 0);
      } catch (const std::bad_alloc&) {
        close(job.client);
      }
    }
  }
}

// ---- the server

bool Server::Impl::submit(Jobs* job) {
  {
    const std::lock_guard lock(jobs_mutex_);
    if (jobs_.size() >= options.max_queued ||
        (!jobs_.empty() &&
         jobs_bytes_ + job->front().bytes > options.max_queued_bytes)) {
      return false;
    }
    jobs_bytes_ += job->front().bytes;
    jobs_.splice(jobs_.end(), *job);
  }
  jobs_ready_.notify_one();
  return true;
}

void Server::Impl::answer(const ServedTables& tables,
                          std::span<const std::string_view> arguments,
                          CommandScratch* scratch, RespReply* reply,
                          std::string* out, Clock::time_point* now) {
  const Clock::time_point begin = *now;
  const size_t before = out->size();
  try {
    if (!run_command(tables, options.commands, arguments, scratch, reply) &&
        !answer_about_server(scratch->name, arguments, tables, reply)) {
      reply->error("ERR unknown command '" +
                   std::string(arguments[0].substr(0, 128)) + "'");
    }
  } catch (const std::bad_alloc&) {
    out->resize(before);
    reply->error("TOOBIG the server is out of memory");
  }
  *now = Clock::now();
  const auto nanos = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(*now - begin)
          .count());
  const auto relaxed = std::memory_order_relaxed;
  counters.nanos.fetch_add(nanos, relaxed);
  const size_t bucket = std::min<size_t>(
      kBuckets - 1, static_cast<size_t>(std::bit_width(nanos / 1000)));
  counters.latency[bucket].fetch_add(1, relaxed);
  counters.by_command[number_of(scratch->name)].fetch_add(1, relaxed);
  if (out->size() > before && (*out)[before] == '-') {
    counters.errors.fetch_add(1, relaxed);
  }
}

void Server::Impl::answer_block(const Job& job, CommandScratch* scratch,
                                std::string* out) {
  RespReply reply(out);
  reply.resp3 = job.resp3;
  if (job.is_block) reply.array(job.commands.size());
  Clock::time_point now = Clock::now();
  for (const Words& words : job.commands) {
    const std::vector<std::string_view> arguments(words.begin(), words.end());
    if (out->size() > options.commands.max_reply_bytes) {
      reply.error("TOOBIG the replies of MULTI have more than " +
                  std::to_string(options.commands.max_reply_bytes) + " bytes");
    } else {
      answer(*job.tables, arguments, scratch, &reply, out, &now);
    }
  }
}

void Server::Impl::work() {
  CommandScratch scratch;
  for (;;) {
    Jobs job;
    {
      std::unique_lock lock(jobs_mutex_);
      jobs_ready_.wait(lock, [&] { return !jobs_.empty() || ending.load(); });
      if (jobs_.empty()) return;
      job.splice(job.begin(), jobs_, jobs_.begin());
      jobs_bytes_ -= job.front().bytes;
    }
    Job& j = job.front();
    try {
      std::string buffer = take_buffer();
      answer_block(j, &scratch, &buffer);
      if (buffer.size() >= buffer.capacity() / 2) {
        j.reply = std::move(buffer);
      } else {  // a client may hold a reply for long
        j.reply = buffer;
        keep_buffer(std::move(buffer));
      }
    } catch (const std::exception&) {  // no memory
      j.has_failed = true;
      j.reply = {};
    }
    j.commands.clear();
    j.tables.reset();
    j.loop->complete(&job);
  }
}

namespace {

// Removes a socket if no server listens on it.
Status remove_dead_socket(const sockaddr_un& address) {
  struct stat st{};
  if (::lstat(address.sun_path, &st) != 0) return Status::ok();
  if (!S_ISSOCK(st.st_mode)) {
    return Status::io_error(
        std::string(address.sun_path) + ": exists and is not a socket",
        EADDRINUSE);
  }
  const Descriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address),
                sizeof address) == 0) {
    return Status::io_error(
        std::string(address.sun_path) + ": another server listens there",
        EADDRINUSE);
  }
  if (errno != ECONNREFUSED) return failed(address.sun_path);
  ::unlink(address.sun_path);
  return Status::ok();
}

}  // namespace

Status Server::Impl::listen() {
  if (!options.unix_path.empty()) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (options.unix_path.size() >= sizeof address.sun_path) {
      return Status::invalid_argument(
          options.unix_path + ": the path of a Unix socket has at most " +
          std::to_string(sizeof address.sun_path - 1) + " bytes");
    }
    std::memcpy(address.sun_path, options.unix_path.data(),
                options.unix_path.size());
    NIMBLE_RETURN_IF_ERROR(remove_dead_socket(address));
    Descriptor fd(
        ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd.get() < 0 ||
        ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address),
               sizeof address) != 0 ||
        ::listen(fd.get(), 511) != 0) {
      return failed(options.unix_path);
    }
    struct stat st{};
    if (::lstat(address.sun_path, &st) == 0) {
      unix_device_ = st.st_dev;
      unix_inode_ = st.st_ino;
    }
    listeners.push_back(std::move(fd));
  }
  if (!options.host.empty()) {
    const std::string shown = options.host + ":" + std::to_string(options.port);
    sockaddr_storage address{};
    socklen_t size = 0;
    auto* v4 = reinterpret_cast<sockaddr_in*>(&address);
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&address);
    if (::inet_pton(AF_INET, options.host.c_str(), &v4->sin_addr) == 1) {
      v4->sin_family = AF_INET;
      v4->sin_port = htons(options.port);
      size = sizeof *v4;
    } else if (::inet_pton(AF_INET6, options.host.c_str(), &v6->sin6_addr) ==
               1) {
      v6->sin6_family = AF_INET6;
      v6->sin6_port = htons(options.port);
      size = sizeof *v6;
    } else {
      return Status::invalid_argument("host '" + options.host +
                                      "': expected an IPv4 or IPv6 address");
    }
    Descriptor fd(::socket(address.ss_family,
                           SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int one = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd.get() < 0 ||
        ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) !=
            0 ||
        ::listen(fd.get(), 511) != 0 ||
        ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) !=
            0) {
      return failed(shown);
    }
    port = ntohs(address.ss_family == AF_INET ? v4->sin_port : v6->sin6_port);
    listeners.push_back(std::move(fd));
  }
  if (listeners.empty()) {
    return Status::invalid_argument("a server needs a Unix socket or a host");
  }
  return Status::ok();
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
  for (size_t i = 0; i < kNames.size(); ++i) {
    out.by_command.emplace_back(kNames[i], c.by_command[i].load());
    out.commands += out.by_command.back().second;
  }
  return out;
}

void Server::stop(double seconds) { impl_->stop(seconds); }

}  // namespace nimble
