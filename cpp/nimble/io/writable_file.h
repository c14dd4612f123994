// WritableFile: bytes appended in order, visible to others only after
// commit(). Destroyed without commit() it leaves nothing behind. Calls block
// while bytes are written. In a child of fork() they are refused, and
// destroying it there changes nothing.
#pragma once

#include <memory>

#include "nimble/base/bytes.h"
#include "nimble/base/result.h"

namespace nimble {

class WritableFile {
 public:
  virtual ~WritableFile() = default;

  virtual Status append(ByteSpan bytes) = 0;
  // Makes all bytes durable, so that commit() has little left to do. Nothing
  // but commit() may follow.
  virtual Status sync() { return Status::ok(); }
  // Makes the file durable and visible; nothing may follow.
  virtual Status commit() = 0;
};

// Writes a temporary file (temporary_file.h) and renames it to `path` on
// commit, after fsync; then syncs the directory. Replaces regular files only,
// through symbolic links, and keeps the mode and, where the system permits,
// the owner of the file it replaces.
//
// A commit that fails leaves the old file, with one exception that its message
// names: the new file is in place, but its directory could not be synced.
Result<std::unique_ptr<WritableFile>> create_local_file(
    const std::string& path);

}  // namespace nimble
