// Destinations that Python's writers write to.
#pragma once

#include <pybind11/pybind11.h>

#include <functional>
#include <memory>

#include "nimble/io/writable_file.h"

namespace nimble {

// Signals are checked when bytes are written, when `poll` is called, and once
// before the file becomes visible. If a check raises KeyboardInterrupt, the
// write is aborted and the old file is kept.
struct WriteTarget {
  std::unique_ptr<WritableFile> file;
  // Checks for signals, at most every 100 ms. Called without the GIL.
  std::function<Status()> poll;
};

// Opens a target. `target` is a local path (str), or an object with
// write(bytes) and optionally commit() and abort(). These methods are called
// with the GIL. The core does not hold the GIL while it works.
WriteTarget open_write_target(const pybind11::object& target);

}  // namespace nimble
