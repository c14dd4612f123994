// Stretches of a file that is not mapped, read ahead into its range cache.
#pragma once

#include <vector>

#include "nimble/open/open_file.h"

namespace nimble {

// Those that the cache lacks, in one round of reads; near ones by one request.
// Nothing of them is verified yet.
Status fetch_ranges(const OpenFile& file, std::vector<ByteRange> ranges,
                    ReadKind kind);

}  // namespace nimble
