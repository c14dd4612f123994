// Many sections of a file that is not mapped, in one round of reads.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "nimble/reader/file_reader.h"

namespace nimble {

// The bytes of sections that ascend by offset, out of the file's cache where it
// has them; near ones are read by one request. Checksums are verified when
// bytes are read. `what` is for messages.
Status fetch_sections(const FileReader& file,
                      std::span<const SectionRef> sections,
                      const std::string& what,
                      std::vector<RangeCache::Bytes>* out);

}  // namespace nimble
