// ModuleReply: a reply that Redis or Valkey sends to its client.
#pragma once

#include "nimble/serve/module/redis_api.h"
#include "nimble/serve/reply.h"

namespace nimble {

class ModuleReply final : public Reply {
 public:
  explicit ModuleReply(RedisModuleCtx* context) : context_(context) {}

  void array(size_t size) override;
  void map(size_t size) override;
  void text(std::string_view bytes) override;
  void null() override;
  void integer(int64_t value) override;
  void simple(std::string_view status) override;
  void error(std::string_view message) override;

  // Values that must follow until the reply is complete.
  uint64_t missing() const { return missing_; }

 private:
  RedisModuleCtx* const context_;
  uint64_t missing_ = 1;
};

}  // namespace nimble
