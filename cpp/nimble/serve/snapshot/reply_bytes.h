// The sizes of replies, and their limit.
#pragma once

#include <cstdint>

#include "nimble/base/result.h"

namespace nimble {

// Approximate bytes of a reply for each value, besides its text, for example
// "$123\r\n...\r\n".
inline constexpr uint64_t kReplyValueBytes = 8;

Status too_large_reply(uint64_t most);
// Fails with kTooLarge if a reply of `bytes` is larger than `most`.
inline Status check_reply_bytes(uint64_t bytes, uint64_t most) {
  return bytes <= most ? Status::ok() : too_large_reply(most);
}

}  // namespace nimble
