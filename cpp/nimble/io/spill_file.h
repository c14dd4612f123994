// SpillFile: a temporary file for bytes that exceed a memory budget. It has no
// name, so the system removes it when the process ends.
#pragma once

#include <memory>
#include <string>

#include "nimble/base/result.h"
#include "nimble/io/owner_process.h"
#include "nimble/memory/byte_buffer.h"

namespace nimble {

class SpillFile {
 public:
  // Creates it in `directory`. If that is empty, uses TMPDIR or /tmp.
  static Result<std::unique_ptr<SpillFile>> create(std::string directory);
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  uint64_t size() const { return size_; }
  // REQUIRES: the process that created the file calls it.
  Status append(ByteSpan bytes);
  // REQUIRES: the bytes have been appended.
  Status read_at(uint64_t offset, uint8_t* out, uint64_t size) const;

 private:
  SpillFile(std::string directory, int fd)
      : directory_(std::move(directory)), fd_(fd) {}

  const OwnerProcess owner_;
  std::string directory_;
  int fd_;
  uint64_t size_ = 0;
};

}  // namespace nimble
