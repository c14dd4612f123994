// SpillFile: temporary bytes on disk that exceed a memory budget. It has no
// name, so that nothing is left behind however the process ends.
#pragma once

#include <memory>
#include <string>

#include "nimble/base/result.h"
#include "nimble/io/owner_process.h"
#include "nimble/memory/byte_buffer.h"

namespace nimble {

class SpillFile {
 public:
  // In `directory`; empty: TMPDIR, or /tmp where that is not set.
  static Result<std::unique_ptr<SpillFile>> create(std::string directory);
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  uint64_t size() const { return size_; }
  // Only in the process that made it.
  Status append(ByteSpan bytes);
  // Bytes that have been appended before.
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
