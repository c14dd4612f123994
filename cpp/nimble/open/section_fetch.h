// Many sections of a file that is not mapped, in one round of reads.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "nimble/open/open_file.h"

namespace nimble {

// The bytes of sections that ascend by offset, out of the file's cache where it
// has them; near ones are read by one request. Checksums are verified when
// bytes are read. `what` is for messages.
Status fetch_sections(const OpenFile& file,
                      std::span<const SectionRef> sections,
                      const std::string& what,
                      std::vector<RangeCache::Bytes>* out);

}  // namespace nimble
