// The commands of a connection: handshakes, MULTI, and the way to a worker for
// long commands.
#include <algorithm>

#include "nimble/serve/loop.h"

namespace nimble {
namespace {

constexpr size_t kMaxQueuedInMulti = 1024;

// Takes a time that does not depend on where the texts differ.
bool same_secret(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    const char other = b.empty() ? '\0' : b[i % b.size()];
    difference |= static_cast<unsigned>(static_cast<uint8_t>(a[i] ^ other));
  }
  return difference == 0;
}

// Approximate memory of a copy of a command.
uint64_t memory_of(std::span<const std::string_view> arguments) {
  uint64_t bytes = sizeof(Words);
  for (const std::string_view a : arguments) {
    bytes += sizeof(std::string) + a.size();
  }
  return bytes;
}

}  // namespace

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
    if (refuse_memory(c->counted_held, &reply)) {
      c->fail_multi();
      return;
    }
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
  // Commands without arguments, such as PING, have small replies.
  if (arguments.size() > 1 && refuse_memory(c->counted_held, &reply)) return;
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
  Server::Impl::Jobs job(1);
  job.front() = {this,  c->id,   c->resp3, is_block, std::move(commands),
                 bytes, tables_, {},       false};
  if (server_.submit(&job)) {
    c->is_waiting = true;
    return;
  }
  refuse(std::to_string(server_.options.max_queued) +
             " long commands, or long commands of " +
             std::to_string(server_.options.max_queued_bytes) +
             " bytes, are waiting already",
         reply);
}

void Loop::refuse(const std::string& why, RespReply* reply) {
  server_.counters.busy.fetch_add(1, std::memory_order_relaxed);
  server_.counters.errors.fetch_add(1, std::memory_order_relaxed);
  reply->error("BUSY " + why + "; try again later");
}

bool Loop::refuse_memory(uint64_t own, RespReply* reply) {
  const uint64_t held =
      server_.counters.held.load(std::memory_order_relaxed) - own;
  if (held <= server_.options.max_held_of_all) return false;
  refuse("clients have not read replies, or not completed commands, of " +
             std::to_string(held) + " bytes",
         reply);
  return true;
}

std::string upper_of(std::string_view text) {
  std::string out(text.substr(0, 32));
  for (char& ch : out) {
    if (ch >= 'a' && ch <= 'z') ch = static_cast<char>(ch - 32);
  }
  return out;
}

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
    } else if (!refuse_memory(c->counted_held, reply)) {
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

}  // namespace nimble
