// Reply: the answer to a command, in Redis' kinds of values. Each protocol
// implements it. The server of this library writes RESP.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nimble {

// Replaces the characters that cannot be in a status or an error.
std::string reply_line(std::string_view text);

class Reply {
 public:
  virtual ~Reply() = default;
  // Begins an array of `size` values, or a map of `size` pairs. They must
  // follow.
  virtual void array(size_t size) = 0;
  virtual void map(size_t size) = 0;
  virtual void text(std::string_view bytes) = 0;
  virtual void null() = 0;
  virtual void integer(int64_t value) = 0;
  virtual void simple(std::string_view status) = 0;
  // `message` begins with a code in capitals: "ERR no such column".
  virtual void error(std::string_view message) = 0;
};

// Writes RESP2, or RESP3 after the client sent HELLO 3.
class RespReply final : public Reply {
 public:
  explicit RespReply(std::string* out) : out_(out) {}
  bool resp3 = false;

  void array(size_t size) override;
  void map(size_t size) override;
  void text(std::string_view bytes) override;
  void null() override;
  void integer(int64_t value) override;
  void simple(std::string_view status) override;
  void error(std::string_view message) override;

 private:
  void head(char type, int64_t number);
  void line(char type, std::string_view text);

  std::string* out_;
};

}  // namespace nimble
