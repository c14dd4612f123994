#include "nimble/serve/snapshot/reply_bytes.h"

#include <string>

namespace nimble {

Status too_large_reply(uint64_t most) {
  return Status::too_large("a reply of more than " + std::to_string(most) +
                           " bytes; ask for fewer rows or columns");
}

}  // namespace nimble
