#include "nimble/serve/loop.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <new>

namespace nimble {
namespace {

constexpr int kTickMillis = 200;
// How long commands are answered -BUSY before connections are closed.
constexpr auto kMostWithoutMemory = std::chrono::seconds(1);
// After this many commands of a pipeline, other clients are served.
constexpr size_t kCommandsAtOnce = 1024;

}  // namespace

std::atomic<uint64_t> Loop::next_id_{Loop::kFirstClient};

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
    if (c->is_partial && !c->is_closing && c->in.size() > kKeptBytes) {
      count_held(c, c->held());
      RespReply reply(&c->out);
      c->is_closing = refuse_memory(0, &reply);
    }
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
  // Whether the client has sent bytes that were not read yet. Their event
  // follows.
  const auto has_unread = [](const Client& c) {
    char byte = 0;
    return ::recv(c.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
  };
  std::vector<uint64_t> ended;
  const auto idle = std::chrono::seconds(server_.options.idle_seconds);
  const auto stuck = std::chrono::seconds(server_.options.unread_seconds);
  for (const auto& [id, c] : clients_) {
    const bool is_idle = server_.options.idle_seconds > 0 && !c->is_waiting &&
                         (now - c->active > idle ||
                          (c->is_partial && now - c->partial_since > idle));
    const bool is_done = server_.stopping.load() && !c->is_waiting &&
                         c->unsent() == 0 && !c->is_again && !has_unread(*c);
    // The client does not read, and its replies take memory.
    const bool is_stuck = c->unsent() >= server_.options.max_unsent_bytes &&
                          now - c->active > stuck;
    if (is_idle || is_done || is_stuck) ended.push_back(id);
  }
  for (const uint64_t id : ended) close(id);
  close_largest(now);
}

void Loop::close_largest(Clock::time_point now) {
  if (server_.counters.held.load(std::memory_order_relaxed) <=
      server_.options.max_held_of_all) {
    enough_memory_ = now;
    return;
  }
  if (now - enough_memory_ < kMostWithoutMemory) return;
  const auto largest = std::max_element(
      clients_.begin(), clients_.end(), [](const auto& a, const auto& b) {
        return a.second->counted_held < b.second->counted_held;
      });
  if (largest != clients_.end() && largest->second->counted_held > 0) {
    close(largest->first);
  }
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
    if (state == RespState::kIncomplete) {
      if (!left.empty() && !c->is_partial) c->partial_since = now_;
      c->is_partial = !left.empty();
      break;
    }
    c->is_partial = false;
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
  count_held(c, c->held());
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

void Loop::count_held(Client* c, uint64_t held) {
  if (held == c->counted_held) return;
  // The difference may be negative; the sum of all differences is not.
  server_.counters.held.fetch_add(held - c->counted_held,
                                  std::memory_order_relaxed);
  c->counted_held = held;
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
  count_held(at->second.get(), 0);
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

}  // namespace nimble
