// OwnerProcess: the process that an object was made in. A child of fork()
// inherits files that its parent is writing, and may neither write to them
// nor remove them.
#pragma once

#include <unistd.h>

#include "nimble/base/result.h"

namespace nimble {

class OwnerProcess {
 public:
  bool is_this() const { return pid_ == ::getpid(); }
  Status check() const {
    if (is_this()) return Status::ok();
    return Status::invalid_argument(
        "this file is written by process " + std::to_string(pid_) +
        "; a child of fork() must make a writer of its own");
  }

 private:
  pid_t pid_ = ::getpid();
};

}  // namespace nimble
