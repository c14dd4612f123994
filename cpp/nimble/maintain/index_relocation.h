// Copies a secondary index from one file to another file with the same rows.
// Bytes are copied, and offsets in them are changed.
#pragma once

#include <vector>

#include "nimble/index/section_sink.h"
#include "nimble/reader/file_reader.h"

namespace nimble {

// Writes the parts of a secondary index of `file`. Returns its new root, which
// the caller must store. Blocks on reads and writes.
Result<std::vector<uint8_t>> relocate_index(const FileReader& file,
                                            const SecondaryIndexRef& index,
                                            const SectionSink& sink);

}  // namespace nimble
