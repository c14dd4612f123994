// Moves a secondary index from one file to another whose rows are the same:
// its bytes are copied, places that they name are changed.
#pragma once

#include <vector>

#include "nimble/index/section_sink.h"
#include "nimble/reader/file_reader.h"

namespace nimble {

// Writes the parts of a secondary index of `file`; gives its new root, for the
// caller to store.
Result<std::vector<uint8_t>> relocate_index(const FileReader& file,
                                            const SecondaryIndexRef& index,
                                            const SectionSink& sink);

}  // namespace nimble
