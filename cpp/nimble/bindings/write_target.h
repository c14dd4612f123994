// Where Python's writers write to.
#pragma once

#include <pybind11/pybind11.h>

#include <functional>
#include <memory>

#include "nimble/io/writable_file.h"

namespace nimble {

// Signals are looked at while bytes are written, whenever `poll` is called, and
// once more before the file becomes visible: a KeyboardInterrupt ends the write
// and leaves the old file.
struct WriteTarget {
  std::unique_ptr<WritableFile> file;
  // Looks at signals, at most every 100 ms. Called without the GIL.
  std::function<Status()> poll;
};

// A local path (str), or an object with write(bytes) and, where it has them,
// commit() and abort(); they are called with the GIL, which the core does not
// hold while it works.
WriteTarget open_write_target(const pybind11::object& target);

}  // namespace nimble
