// The workers of a server, and the answers of all its threads.
#include <algorithm>
#include <bit>
#include <exception>
#include <new>

#include "nimble/serve/loop.h"

namespace nimble {

namespace {

size_t number_of(std::string_view name) {
  for (size_t i = 0; i + 1 < kCountedCommands.size(); ++i) {
    if (name == kCountedCommands[i]) return i;
  }
  return kCountedCommands.size() - 1;
}

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
      reply->integer(static_cast<int64_t>(kCountedCommands.size() - 1));
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

}  // namespace nimble
