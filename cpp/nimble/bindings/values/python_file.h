// Makes Python file objects usable as files of the core. Their methods are
// called with the GIL. The core does not hold the GIL while it works.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <mutex>

#include "nimble/io/memory_file.h"
#include "nimble/io/readable_file.h"

namespace nimble {

// Opens a seekable binary file object, or an object with read_at(size, offset),
// like pyarrow's files. If it has read_many([(offset, size), ...]), a round of
// reads is one call.
std::shared_ptr<const ReadableFile> open_python_file(
    const pybind11::object& file, std::string name, uint64_t coalesce_gap);

// Opens any object with the buffer protocol, without a copy.
std::shared_ptr<const ReadableFile> open_python_buffer(
    const pybind11::object& buffer);

}  // namespace nimble
