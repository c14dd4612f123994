// A whole file inside a SpillFile: written through `target`, then read through
// `source`, never synced and never seen under a name.
#pragma once

#include <memory>

#include "nimble/io/readable_file.h"
#include "nimble/io/spill_file.h"
#include "nimble/io/writable_file.h"

namespace nimble {

std::unique_ptr<WritableFile> spill_target(std::shared_ptr<SpillFile> file);
// After the target was committed.
std::shared_ptr<const ReadableFile> spill_source(
    std::shared_ptr<const SpillFile> file);

}  // namespace nimble
