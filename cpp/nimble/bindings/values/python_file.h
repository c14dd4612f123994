// Python file objects as files that the core reads. Their methods are called
// with the GIL held, which the core does not hold while it works.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <mutex>

#include "nimble/io/memory_file.h"
#include "nimble/io/readable_file.h"

namespace nimble {

// A seekable binary file object, or one that has read_at(size, offset) as
// pyarrow's files do. Where it has read_many([(offset, size), ...]), a round of
// reads is one call.
std::shared_ptr<const ReadableFile> open_python_file(
    const pybind11::object& file, std::string name, uint64_t coalesce_gap);

// Anything with the buffer protocol, without a copy.
std::shared_ptr<const ReadableFile> open_python_buffer(
    const pybind11::object& buffer);

}  // namespace nimble
