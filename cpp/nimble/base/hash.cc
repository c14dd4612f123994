#include "nimble/base/hash.h"

#include <xxhash.h>

namespace nimble {

uint64_t checksum64(ByteSpan bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

uint64_t key_hash64(ByteSpan bytes) {
  return XXH64(bytes.data(), bytes.size(), 0);
}

}  // namespace nimble
