// Opens a hash index as an IndexLookup. The IndexLookup compares candidates
// with the rows' own keys, so its answers are exact. Borrows `file`.
#pragma once

#include "nimble/lookup/index_lookup.h"
#include "nimble/open/open_file.h"

namespace nimble {

Result<std::unique_ptr<const IndexLookup>> open_hash_lookup(
    const OpenFile& file, const SecondaryIndexRef& ref,
    std::vector<uint8_t> root, KeyEncoder encoder);

}  // namespace nimble
