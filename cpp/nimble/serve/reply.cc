#include "nimble/serve/reply.h"

#include <charconv>
#include <cstring>

namespace nimble {
namespace {

// Longer texts are appended without a copy in between.
constexpr size_t kShortText = 128;
constexpr size_t kMaxHead = 24;  // a type, 20 digits and the end of the line

// Writes "<type><number>\r\n" and returns its end.
char* put_head(char type, int64_t number, char* to) {
  *to++ = type;
  if (number >= 0 && number < 10) {
    *to++ = static_cast<char>('0' + number);
  } else {
    to = std::to_chars(to, to + kMaxHead - 3, number).ptr;
  }
  *to++ = '\r';
  *to++ = '\n';
  return to;
}

}  // namespace

std::string reply_line(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c == '\r' || c == '\n' || c == '\0') c = ' ';
  }
  return out;
}

void RespReply::head(char type, int64_t number) {
  char text[kMaxHead];
  const char* const end = put_head(type, number, text);
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
  if (bytes.size() <= kShortText) {
    char all[kMaxHead + kShortText + 2];
    char* to = put_head('$', static_cast<int64_t>(bytes.size()), all);
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
    to += bytes.size();
    *to++ = '\r';
    *to++ = '\n';
    out_->append(all, static_cast<size_t>(to - all));
    return;
  }
  head('$', static_cast<int64_t>(bytes.size()));
  out_->append(bytes).append("\r\n");
}

void RespReply::null() { out_->append(resp3 ? "_\r\n" : "$-1\r\n"); }

void RespReply::integer(int64_t value) { head(':', value); }

void RespReply::simple(std::string_view status) { line('+', status); }

void RespReply::error(std::string_view message) { line('-', message); }

}  // namespace nimble
