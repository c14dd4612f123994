// Clients that do not read their replies.
#include "nimble/serve/server.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "io/temp_dir.h"
#include "testing/check.h"

namespace nimble {
namespace {

class Peer {
 public:
  explicit Peer(const std::string& path)
      : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    CHECK_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&address),
                       sizeof address),
             0);
  }
  ~Peer() { ::close(fd_); }
  Peer(const Peer&) = delete;

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }
  std::string receive() {
    char bytes[200];
    const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
    return std::string(bytes, n < 0 ? 0 : static_cast<size_t>(n));
  }

 private:
  const int fd_;
};

ServerOptions options_in(const testing::TempDir& dir) {
  ServerOptions out;
  out.unix_path = dir.path("s");
  out.max_unsent_bytes = 1000;
  return out;
}

// Makes the server keep a part of a reply of this size for the peer.
void ask_without_reading(const Server& server, Peer* peer, size_t size) {
  const uint64_t before = server.stats().commands;
  const std::string text(size, 'x');
  peer->send("*2\r\n$4\r\nECHO\r\n$" + std::to_string(text.size()) + "\r\n" +
             text + "\r\n");
  for (int i = 0; i < 200 && server.stats().commands == before; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

TEST(Server, ClientThatReadsNothingIsDisconnected) {
  const testing::TempDir dir;
  ServerOptions options = options_in(dir);
  options.unread_seconds = 0;
  const auto server =
      Server::start(options, std::make_shared<const ServedTables>()).value();
  Peer idle(options.unix_path), stuck(options.unix_path);
  ask_without_reading(*server, &stuck, 900 << 10);
  for (int i = 0; i < 200 && server->stats().clients != 1; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  CHECK_EQ(server->stats().clients, uint64_t{1});
  idle.send("PING\r\n");
  CHECK(idle.receive() == "+PONG\r\n");
}

TEST(Server, CommandsAreRefusedWhileOthersDoNotRead) {
  const testing::TempDir dir;
  ServerOptions options = options_in(dir);
  options.max_held_of_all = 1000;
  const auto server =
      Server::start(options, std::make_shared<const ServedTables>()).value();
  Peer other(options.unix_path);
  other.send("NB.RANGE t - +\r\n");
  CHECK(other.receive().starts_with("-NOTABLE"));
  {
    Peer stuck(options.unix_path);
    ask_without_reading(*server, &stuck, 250 << 10);
    other.send("NB.RANGE t - +\r\n");
    CHECK(other.receive().starts_with("-BUSY clients have not read"));
    other.send("HGETALL t:1\r\n");
    CHECK(other.receive().starts_with("-BUSY clients have not read"));
    other.send("PING\r\n");
    CHECK(other.receive() == "+PONG\r\n");
  }
  std::string reply = "-BUSY";
  for (int i = 0; i < 200 && reply.starts_with("-BUSY"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    other.send("NB.RANGE t - +\r\n");
    reply = other.receive();
  }
  CHECK(reply.starts_with("-NOTABLE"));
}

TEST(Server, LargeIncompleteCommandsAreLimitedTogether) {
  const testing::TempDir dir;
  ServerOptions options = options_in(dir);
  options.max_held_of_all = 1 << 20;
  const auto server =
      Server::start(options, std::make_shared<const ServedTables>()).value();
  const std::string part =
      "*2\r\n$4\r\nECHO\r\n$900000\r\n" + std::string(600 << 10, 'x');
  Peer first(options.unix_path), second(options.unix_path);
  first.send(part);
  second.send(part);
  for (int i = 0; i < 200 && server->stats().busy == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  for (int i = 0; i < 200 && server->stats().clients > 1; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  CHECK_EQ(server->stats().busy, uint64_t{1});
  CHECK_EQ(server->stats().clients, uint64_t{1});
  Peer third(options.unix_path);
  third.send("PING\r\n");
  CHECK(third.receive() == "+PONG\r\n");
}

TEST(Server, SilentClientsDoNotBlockOthersForGood) {
  const testing::TempDir dir;
  ServerOptions options = options_in(dir);
  options.max_held_of_all = 1 << 20;
  const auto server =
      Server::start(options, std::make_shared<const ServedTables>()).value();
  // Each is too small to be disconnected for its own size.
  const std::string part =
      "*2\r\n$4\r\nECHO\r\n$900000\r\n" + std::string(200 << 10, 'x');
  std::vector<std::unique_ptr<Peer>> silent;
  for (int i = 0; i < 7; ++i) {
    silent.push_back(std::make_unique<Peer>(options.unix_path));
    silent.back()->send(part);
  }
  Peer other(options.unix_path);
  bool was_busy = false;
  std::string reply;
  for (int i = 0; i < 300; ++i) {
    other.send("HGETALL t:1\r\n");
    reply = other.receive();
    was_busy |= reply.starts_with("-BUSY");
    if (was_busy && !reply.starts_with("-BUSY")) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  CHECK(was_busy);
  CHECK(!reply.starts_with("-BUSY"));
  CHECK(server->stats().clients >= 5);
}

TEST(Server, QueuedCommandsCountForTheLimit) {
  const testing::TempDir dir;
  ServerOptions options = options_in(dir);
  options.max_held_of_all = 1 << 20;
  const auto server =
      Server::start(options, std::make_shared<const ServedTables>()).value();
  Peer first(options.unix_path), second(options.unix_path);
  first.send("MULTI\r\n");
  CHECK(first.receive() == "+OK\r\n");
  const std::string start = "*2\r\n$4\r\nECHO\r\n$400000\r\n";
  const std::string text(400000, 'x');
  for (int i = 0; i < 2; ++i) {
    first.send(start + text + "\r\n");
    CHECK(first.receive() == "+QUEUED\r\n");
  }
  second.send(start + text);  // a byte is missing
  CHECK(second.receive().starts_with("-BUSY"));
}

TEST(Server, CommandThatTakesTooLongIsDisconnected) {
  const testing::TempDir dir;
  ServerOptions options = options_in(dir);
  options.idle_seconds = 1;
  const auto server =
      Server::start(options, std::make_shared<const ServedTables>()).value();
  Peer slow(options.unix_path);
  slow.send("*1\r\n$1000\r\n");
  int sent = 0;
  for (; sent < 300 && (sent == 0 || server->stats().clients > 0); ++sent) {
    slow.send("x");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  CHECK_EQ(server->stats().clients, uint64_t{0});
  CHECK(sent > 2);
}

TEST(Server, StopAnswersCommandsThatWereNotReadYet) {
  const testing::TempDir dir;
  const ServerOptions options = options_in(dir);
  const auto server =
      Server::start(options, std::make_shared<const ServedTables>()).value();
  std::vector<std::unique_ptr<Peer>> peers;
  for (int i = 0; i < 300; ++i) {
    peers.push_back(std::make_unique<Peer>(options.unix_path));
    peers.back()->send("PING\r\n");
    CHECK(peers.back()->receive() == "+PONG\r\n");
  }
  for (const auto& peer : peers) peer->send("PING\r\nPING\r\n");
  server->stop(60);
  for (const auto& peer : peers) {
    std::string replies;
    for (std::string part = peer->receive(); !part.empty();
         part = peer->receive()) {
      replies += part;
    }
    CHECK_EQ(replies, "+PONG\r\n+PONG\r\n");
  }
}

}  // namespace
}  // namespace nimble
