// RespParser: cuts the bytes of a client into commands. Its memory is bounded:
// it does not allocate memory for bytes that a client has only announced. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nimble {

struct RespLimits {
  // Commands have lower limits, and answer -TOOBIG.
  uint64_t max_arguments = uint64_t{1} << 18;
  uint64_t max_argument_bytes = uint64_t{1} << 20;
  uint64_t max_command_bytes = uint64_t{8} << 20;
  uint64_t max_inline_bytes = 64 * 1024;
};

enum class RespState : uint8_t {
  kCommand,     // *arguments has the next command
  kIncomplete,  // more bytes are needed
  kBroken,      // not RESP, or above a limit: close the connection
};

class RespParser {
 public:
  // Reads the next command from the front of `bytes`. Sets *used to its size,
  // also for an empty line, which is a command without arguments. The arguments
  // borrow `bytes`. After kBroken, *problem says why. After kIncomplete, the
  // next call continues where this call ended.
  // REQUIRES: after kIncomplete, `bytes` begins with the bytes of the previous
  // call.
  RespState next(std::string_view bytes, const RespLimits& limits,
                 std::vector<std::string_view>* arguments, size_t* used,
                 std::string* problem);

  // Memory for the places of arguments, besides `bytes`.
  size_t held_bytes() const { return spans_.capacity() * sizeof(Span); }

 private:
  using Span = std::pair<size_t, size_t>;

  RespState read_inline(std::string_view bytes, const RespLimits& limits,
                        std::vector<std::string_view>* arguments, size_t* used,
                        std::string* problem);
  void reset();

  size_t at_ = 0;            // bytes that need not be read again
  int64_t count_ = 0;        // arguments of the command; set if at_ > 0
  std::vector<Span> spans_;  // of the arguments so far
};

}  // namespace nimble
