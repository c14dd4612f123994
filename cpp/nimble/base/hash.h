// The two hashes used in files. They must not change: XXH3-64 for checksums,
// and XXH64 with seed 0 for Bloom filters and hash indexes (like Parquet).
#pragma once

#include "nimble/base/bytes.h"

namespace nimble {

uint64_t checksum64(ByteSpan bytes);
uint64_t key_hash64(ByteSpan bytes);

}  // namespace nimble
