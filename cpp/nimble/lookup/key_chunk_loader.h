// KeyChunkLoader: key chunks of an index out of its file. In a mapped file a
// chunk is verified when it is first touched, elsewhere whenever it is opened.
#pragma once

#include <optional>

#include "nimble/index/key_chunk.h"
#include "nimble/index/key_chunk_group.h"
#include "nimble/io/range_cache.h"
#include "nimble/open/open_file.h"

namespace nimble {

// A chunk, and what keeps its bytes where the file is not mapped.
struct OpenKeyChunk {
  std::optional<KeyChunk> chunk;
  RangeCache::Bytes owner;
  uint64_t first = 0;  // place of its first key

  // Opens chunk `chunk` of a group. Keys that a sampled chunk leaves out are in
  // `source`, which must outlive it; null: there are none.
  Status open(const OpenFile& file, const KeyChunkGroup& group, size_t chunk,
              const KeySource* source);
};

}  // namespace nimble
