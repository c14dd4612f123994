// Opens key chunks of an index. In a mapped file, a chunk is verified on first
// access. In other files, it is verified whenever it is opened.
#pragma once

#include <optional>

#include "nimble/index/key_chunk_group.h"
#include "nimble/io/range_cache.h"
#include "nimble/key_chunk/key_chunk.h"
#include "nimble/open/open_file.h"

namespace nimble {

// A key chunk, with the owner of its bytes if the file is not mapped.
struct OpenKeyChunk {
  std::optional<KeyChunk> chunk;
  RangeCache::Bytes owner;
  uint64_t first = 0;  // place of its first key

  // Opens chunk `chunk` of a group. May block on a read. `source` has the keys
  // that a sampled chunk does not store, or is null if the index stores all
  // keys. `source` and a mapped file must outlive the chunk.
  Status open(const OpenFile& file, const KeyChunkGroup& group, size_t chunk,
              const KeySource* source);
};

}  // namespace nimble
