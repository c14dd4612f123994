// Reads many sections of a file that is not mapped, in one round.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "nimble/open/open_file.h"

namespace nimble {

// Returns the bytes of sections, from the range cache if it has them. Near
// sections share a request. Checksums are verified when bytes are read. `what`
// names the sections in messages. May block on reads.
// REQUIRES: sections ascend by offset.
Status fetch_sections(const OpenFile& file,
                      std::span<const SectionRef> sections,
                      const std::string& what,
                      std::vector<RangeCache::Bytes>* out);

}  // namespace nimble
