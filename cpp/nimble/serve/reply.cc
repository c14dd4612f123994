#include "nimble/serve/reply.h"

#include <charconv>

namespace nimble {

Status check_reply_bytes(uint64_t bytes, uint64_t most) {
  if (bytes <= most) return Status::ok();
  return Status::too_large("a reply of more than " + std::to_string(most) +
                           " bytes; ask for fewer rows or columns");
}

std::string reply_line(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c == '\r' || c == '\n' || c == '\0') c = ' ';
  }
  return out;
}

void RespReply::head(char type, int64_t number) {
  char text[24];
  text[0] = type;
  char* end = std::to_chars(text + 1, text + sizeof text - 2, number).ptr;
  *end++ = '\r';
  *end++ = '\n';
  out_->append(text, static_cast<size_t>(end - text));
}

void RespReply::line(char type, std::string_view text) {
  out_->push_back(type);
  out_->append(reply_line(text)).append("\r\n");
}

void RespReply::array(size_t size) { head('*', static_cast<int64_t>(size)); }

void RespReply::map(size_t size) {
  const auto n = static_cast<int64_t>(size);
  if (resp3) {
    head('%', n);
  } else {
    head('*', 2 * n);
  }
}

void RespReply::text(std::string_view bytes) {
  head('$', static_cast<int64_t>(bytes.size()));
  out_->append(bytes).append("\r\n");
}

void RespReply::null() { out_->append(resp3 ? "_\r\n" : "$-1\r\n"); }

void RespReply::integer(int64_t value) { head(':', value); }

void RespReply::simple(std::string_view status) { line('+', status); }

void RespReply::error(std::string_view message) { line('-', message); }

}  // namespace nimble
