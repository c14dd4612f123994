#include "nimble/serve/resp_parser.h"

#include <algorithm>
#include <charconv>

namespace nimble {
namespace {

// The longest line with a number: "$" and 20 digits.
constexpr size_t kMaxNumberLine = 32;
// A parser does not keep memory for more arguments after a command.
constexpr size_t kKeptSpans = 1024;

// Reads "<type><number>\r\n" at *at.
RespState read_number(std::string_view bytes, char type, size_t* at,
                      int64_t* number, std::string* problem) {
  if (*at == bytes.size()) return RespState::kIncomplete;
  if (bytes[*at] != type) {
    *problem = "expected '";
    *problem += type;
    *problem += "'";
    return RespState::kBroken;
  }
  // Most numbers have a few digits, which a loop reads quicker than the general
  // functions.
  constexpr size_t kFewDigits = 6;
  int64_t few = 0;
  size_t i = *at + 1;
  for (const size_t end = std::min(bytes.size(), i + kFewDigits);
       i < end && bytes[i] >= '0' && bytes[i] <= '9'; ++i) {
    few = few * 10 + (bytes[i] - '0');
  }
  if (i > *at + 1 && bytes.size() - i >= 2 && bytes[i] == '\r' &&
      bytes[i + 1] == '\n') {
    *number = few;
    *at = i + 2;
    return RespState::kCommand;
  }
  const std::string_view rest = bytes.substr(*at + 1, kMaxNumberLine);
  const size_t end = rest.find('\r');
  if (end == std::string_view::npos) {
    if (rest.size() < kMaxNumberLine) return RespState::kIncomplete;
    *problem = "a number is too long";
    return RespState::kBroken;
  }
  if (*at + 1 + end + 1 >= bytes.size()) return RespState::kIncomplete;
  const auto [last, error] =
      std::from_chars(rest.data(), rest.data() + end, *number);
  if (error != std::errc() || last != rest.data() + end ||
      bytes[*at + 1 + end + 1] != '\n') {
    *problem = "invalid number";
    return RespState::kBroken;
  }
  *at += 1 + end + 2;
  return RespState::kCommand;
}

}  // namespace

void RespParser::reset() {
  at_ = 0;
  spans_.clear();
  if (spans_.capacity() > kKeptSpans) std::vector<Span>().swap(spans_);
}

RespState RespParser::read_inline(std::string_view bytes,
                                  const RespLimits& limits,
                                  std::vector<std::string_view>* arguments,
                                  size_t* used, std::string* problem) {
  const size_t end = bytes.substr(0, limits.max_inline_bytes).find('\n', at_);
  if (end == std::string_view::npos) {
    at_ = bytes.size();
    if (bytes.size() < limits.max_inline_bytes) return RespState::kIncomplete;
    *problem = "too big inline request";
    return RespState::kBroken;
  }
  std::string_view line = bytes.substr(0, end);
  if (line.ends_with('\r')) line.remove_suffix(1);
  while (!line.empty()) {
    const size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string_view::npos) break;
    line.remove_prefix(begin);
    const size_t size = std::min(line.find_first_of(" \t"), line.size());
    arguments->push_back(line.substr(0, size));
    line.remove_prefix(size);
  }
  *used = end + 1;
  reset();
  return RespState::kCommand;
}

RespState RespParser::next(std::string_view bytes, const RespLimits& limits,
                           std::vector<std::string_view>* arguments,
                           size_t* used, std::string* problem) {
  arguments->clear();
  *used = 0;
  if (bytes.empty()) return RespState::kIncomplete;
  if (bytes[0] != '*') {
    return read_inline(bytes, limits, arguments, used, problem);
  }
  if (at_ == 0) {
    const RespState state = read_number(bytes, '*', &at_, &count_, problem);
    if (state != RespState::kCommand) return state;
    if (count_ > 0 && static_cast<uint64_t>(count_) > limits.max_arguments) {
      *problem = "invalid multibulk length";
      return RespState::kBroken;
    }
  }
  while (count_ > 0 && spans_.size() < static_cast<uint64_t>(count_)) {
    size_t at = at_;
    int64_t size = 0;
    const RespState state = read_number(bytes, '$', &at, &size, problem);
    if (state != RespState::kCommand) return state;
    if (size < 0 || static_cast<uint64_t>(size) > limits.max_argument_bytes) {
      *problem = "invalid bulk length";
      return RespState::kBroken;
    }
    const auto n = static_cast<size_t>(size);
    if (at > limits.max_command_bytes || n > limits.max_command_bytes - at) {
      *problem = "a command of too many bytes";
      return RespState::kBroken;
    }
    if (bytes.size() - at < n + 2) return RespState::kIncomplete;
    if (bytes[at + n] != '\r' || bytes[at + n + 1] != '\n') {
      *problem = "an argument does not end after its length";
      return RespState::kBroken;
    }
    spans_.emplace_back(at, n);
    at_ = at + n + 2;
  }
  for (const auto& [begin, size] : spans_) {
    arguments->push_back(bytes.substr(begin, size));
  }
  *used = at_;
  reset();
  return RespState::kCommand;
}

}  // namespace nimble
