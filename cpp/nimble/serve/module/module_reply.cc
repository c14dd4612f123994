#include "nimble/serve/module/module_reply.h"

#include <string>

namespace nimble {
void ModuleReply::array(size_t size) {
  missing_ += size - 1;
  redis_api.ReplyWithArray(context_, static_cast<long>(size));
}

// Redis 6.2 has no function for maps: clients get arrays, also with RESP3.
void ModuleReply::map(size_t size) {
  missing_ += 2 * size - 1;
  if (redis_api.ReplyWithMap != nullptr) {
    redis_api.ReplyWithMap(context_, static_cast<long>(size));
  } else {
    redis_api.ReplyWithArray(context_, static_cast<long>(2 * size));
  }
}

void ModuleReply::text(std::string_view bytes) {
  --missing_;
  redis_api.ReplyWithStringBuffer(context_, bytes.data(), bytes.size());
}

void ModuleReply::null() {
  --missing_;
  redis_api.ReplyWithNull(context_);
}

void ModuleReply::integer(int64_t value) {
  --missing_;
  redis_api.ReplyWithLongLong(context_, value);
}

void ModuleReply::simple(std::string_view status) {
  --missing_;
  redis_api.ReplyWithSimpleString(context_, reply_line(status).c_str());
}

void ModuleReply::error(std::string_view message) {
  const std::string line = reply_line(message);
  --missing_;
  redis_api.ReplyWithError(context_, line.c_str());
}

}  // namespace nimble
