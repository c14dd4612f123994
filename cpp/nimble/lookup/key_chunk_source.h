// KeyChunkSource: key chunks out of a file, verified when they are first
// touched. One at a time stays open.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "nimble/index/key_chunk.h"
#include "nimble/open/open_file.h"

namespace nimble {

// Where a chunk lies, and where it is remembered that it has been verified.
struct KeyChunkPlace {
  uint64_t offset = 0;
  uint64_t size = 0;
  uint32_t num_keys = 0;
  std::atomic<uint64_t>* verified = nullptr;  // a word of bits
  uint64_t verified_bit = 0;                  // the bit, as a mask
};

class KeyChunkSource {
 public:
  explicit KeyChunkSource(const OpenFile& file) : file_(file) {}

  // The chunk, good until the next call.
  Result<const KeyChunk*> open(const KeyChunkPlace& place);

 private:
  Result<ByteSpan> bytes(const KeyChunkPlace& place);

  const OpenFile& file_;
  RangeCache::Bytes owner_;  // of a chunk that is not mapped
  uint64_t offset_ = UINT64_MAX;
  std::optional<KeyChunk> chunk_;
};

}  // namespace nimble
