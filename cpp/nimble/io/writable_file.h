// WritableFile: bytes appended in order, visible to others only after
// commit(). Destroyed without commit() it leaves nothing behind.
#pragma once

#include <memory>

#include "nimble/base/bytes.h"
#include "nimble/base/result.h"

namespace nimble {

class WritableFile {
 public:
  virtual ~WritableFile() = default;

  virtual Status append(ByteSpan bytes) = 0;
  // Makes the file durable and visible; nothing may follow.
  virtual Status commit() = 0;
};

// Writes a temporary file (temporary_file.h) and renames it to `path` on
// commit, after fsync; then syncs the directory.
Result<std::unique_ptr<WritableFile>> create_local_file(
    const std::string& path);

}  // namespace nimble
