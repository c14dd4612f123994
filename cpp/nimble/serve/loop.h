// Loop: one thread of a server, with the connections that it accepted.
//
//   loop.cc      sockets, events, back-pressure
//   session.cc   commands of a connection: handshakes, MULTI, and all others
#pragma once

#include <sys/epoll.h>

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "nimble/serve/server_impl.h"

namespace nimble {

// Bytes to read from a socket at once.
inline constexpr size_t kReadBytes = 64 * 1024;

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
  bool is_partial = false;          // `in` ends with a part of a command
  Clock::time_point partial_since;  // when its first byte was received
  uint32_t events = EPOLLIN;
  uint64_t counted_held = 0;  // of the server's count

  size_t unsent() const { return out.size() - sent; }
  // Bytes of commands that are not answered, and of unread replies.
  size_t held() const {
    return unsent() + in.size() - read_at + queued_bytes +
           (is_partial ? parser.held_bytes() : 0);
  }
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
  void count_held(Client* c, uint64_t held);
  // Answers -BUSY if the commands and replies of all clients take too much
  // memory. `own` bytes of them do not count.
  bool refuse_memory(uint64_t own, RespReply* reply);
  void refuse(const std::string& why, RespReply* reply);
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
  // If the commands and replies of all clients take too much memory for a
  // while, closes the connection that holds the most.
  void close_largest(Clock::time_point now);
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
  Clock::time_point enough_memory_ = Clock::now();  // the last time
  bool is_accepting_ = false;
  // clients with commands that are not answered yet
  std::vector<uint64_t> again_;

  static std::atomic<uint64_t> next_id_;
  static constexpr uint64_t kEvent = 0;  // ids of listeners and clients follow
  static constexpr uint64_t kFirstClient = 1024;
};

}  // namespace nimble
