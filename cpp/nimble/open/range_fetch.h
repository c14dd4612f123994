// Reads ranges ahead into the range cache of a file that is not mapped.
#pragma once

#include <vector>

#include "nimble/open/open_file.h"

namespace nimble {

// Reads the ranges that the cache lacks, in one round. Near ranges share a
// request. The bytes are not verified. May block on reads.
Status fetch_ranges(const OpenFile& file, std::vector<ByteRange> ranges,
                    ReadKind kind);

}  // namespace nimble
