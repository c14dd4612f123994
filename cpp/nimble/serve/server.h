// Server: answers Redis clients (RESP2 and RESP3) from tables, on a Unix socket
// or TCP, with threads of its own. Does not use Python. Thread-safe.
//
//   loop threads   accept, parse, answer short commands, write
//   workers        answer long commands; a full queue answers -BUSY
//
// A command, or a MULTI ... EXEC block, is answered from the tables that are
// served when it begins, even if swap() replaces them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nimble/base/result.h"
#include "nimble/serve/commands.h"
#include "nimble/serve/resp_parser.h"

namespace nimble {

struct ServerOptions {
  std::string unix_path;  // empty: no Unix socket
  std::string host;       // empty: no TCP; an IPv4 or IPv6 address
  uint16_t port = 0;      // 0: any free port
  std::string token;      // empty: clients need not authenticate
  uint32_t loop_threads = 1;
  uint32_t workers = 2;
  uint32_t max_clients = 10000;
  uint32_t max_queued = 256;  // long commands that wait for a worker
  uint64_t max_queued_bytes = uint64_t{64} << 20;  // of their arguments
  // Disconnects clients that send nothing for this long, or that need longer
  // for one command; 0: never.
  uint32_t idle_seconds = 0;
  // Above this, the client's commands wait. A client that then reads nothing
  // for `unread_seconds` is disconnected.
  uint64_t max_unsent_bytes = uint64_t{1} << 20;
  uint32_t unread_seconds = 60;
  // If the unread replies and the incomplete commands of all clients exceed
  // this, commands are answered -BUSY, and clients that send more of a large
  // command are disconnected.
  uint64_t max_held_of_all = uint64_t{1} << 30;
  CommandOptions commands;
  RespLimits resp;
};

struct ServerStats {
  uint64_t clients = 0;  // connected now
  uint64_t accepted = 0;
  uint64_t rejected = 0;  // above max_clients or the limit of descriptors
  uint64_t commands = 0;
  uint64_t errors = 0;
  uint64_t busy = 0;
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
  uint64_t swaps = 0;
  // Commands by duration: bucket i counts those that took less than 2^i us.
  std::vector<uint64_t> latency;
  double seconds = 0;  // sum of these times
  std::vector<std::pair<std::string, uint64_t>> by_command;
};

class Server {
 public:
  // Starts serving. Fails if an address cannot be bound.
  static Result<std::unique_ptr<Server>> start(
      ServerOptions options, std::shared_ptr<const ServedTables> tables);
  // Stops at once, unless stop() was called before. Does nothing in a child of
  // fork(), because the threads belong to the parent.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const;  // 0 without TCP
  // Replaces the tables. Commands that begin later are answered from the new
  // tables.
  void swap(std::shared_ptr<const ServedTables> tables);
  ServerStats stats() const;
  // Stops accepting clients. Finishes the commands that were received and sends
  // their replies, for at most `seconds`. Then closes everything. Blocks until
  // then.
  void stop(double seconds);

  class Impl;  // of server_impl.h

 private:
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace nimble
