#include "nimble/io/memory_file.h"

namespace nimble {

Status MemoryFile::read_at(const ReadRequest& r) const {
  if (!in_bounds(r.offset, r.size, bytes_.size())) {
    return Status::corrupt(name_ + ": wanted " + std::to_string(r.size) +
                           " bytes at offset " + std::to_string(r.offset) +
                           " of a file of " + std::to_string(bytes_.size()));
  }
  if (r.size > 0) std::memcpy(r.out, bytes_.data() + r.offset, r.size);
  return Status::ok();
}

}  // namespace nimble
