// WritableFile: a file that is written in order and becomes visible with
// commit(). If it is destroyed before commit(), the file is removed. Calls
// block while bytes are written. A child of fork() cannot write it, and
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
  // Makes all bytes durable, so that commit() is fast.
  // REQUIRES: only commit() is called afterwards.
  virtual Status sync() { return Status::ok(); }
  // Makes the file durable and visible.
  // REQUIRES: nothing is called afterwards.
  virtual Status commit() = 0;
};

// Writes a temporary file (temporary_file.h) and renames it to `path` on
// commit, after fsync. Then syncs the directory. Replaces only regular files,
// and follows symbolic links to them. Keeps the mode of the replaced file, and
// its owner if the system permits.
//
// If commit fails, the old file is unchanged, with one exception: if only the
// sync of the directory fails, the new file is in place. The message says so.
Result<std::unique_ptr<WritableFile>> create_local_file(
    const std::string& path);

}  // namespace nimble
