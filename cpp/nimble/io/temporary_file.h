// Temporary files beside the file they will become: ".<name>.<n>.nimble-tmp".
//
// A writer locks its temporary file. The system releases the lock when the
// process ends. So an unlocked temporary file belongs to a dead writer, and the
// next writer of that name removes it.
#pragma once

#include <string>

#include "nimble/base/result.h"

namespace nimble {

struct TemporaryFile {
  std::string path;
  int fd = -1;  // open for writing and locked
};

// Creates a file that will be renamed to `target` before `fd` is closed. Its
// permissions are `mode` without the bits of the process's umask.
Result<TemporaryFile> create_temporary(const std::string& target,
                                       unsigned mode);

}  // namespace nimble
