// KeyChunkGroup: the key chunks of one group of an index. It has their
// boundaries and locations, and records which chunks are verified. The cluster
// index has one group in each stripe group. A sorted index has groups of its
// own. Thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>

#include "nimble/format/group.h"
#include "nimble/index/chunk_directory.h"

namespace nimble {

// The location of a key chunk in the file, and its range of keys.
struct ChunkLocation {
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t first = 0;  // place of its first key; a row in the cluster index
  uint32_t num_keys = 0;
};

class KeyChunkGroup {
 public:
  KeyChunkGroup() = default;
  // `layout` and `boundaries` borrow from bytes that must outlive the group.
  // `first` is the place of its first key.
  KeyChunkGroup(const ChunkDirectoryRef& layout, ChunkDirectory boundaries,
                uint64_t first)
      : layout_(layout),
        boundaries_(std::move(boundaries)),
        first_(first),
        verified_(new std::atomic<uint64_t>[size() / 64 + 1]()) {}

  size_t size() const { return boundaries_.size(); }
  uint64_t first() const { return first_; }
  const ChunkDirectory& boundaries() const { return boundaries_; }

  ChunkLocation location(size_t chunk) const {
    const uint64_t begin = chunk == 0 ? 0 : layout_.chunk_ends[chunk - 1];
    const uint64_t place = chunk == 0 ? 0 : layout_.chunk_end_rows[chunk - 1];
    return {layout_.key_stream_offset + begin,
            layout_.chunk_ends[chunk] - begin, first_ + place,
            static_cast<uint32_t>(layout_.chunk_end_rows[chunk] - place)};
  }
  // Returns the chunk that contains the key at place `place`.
  size_t chunk_at(uint64_t place) const {
    const auto& ends = layout_.chunk_end_rows;
    return static_cast<size_t>(
        std::upper_bound(ends.begin(), ends.end(), place - first_) -
        ends.begin());
  }

  // Whether the checksum of a chunk of a mapped file is verified.
  bool is_verified(size_t chunk) const {
    return (verified_[chunk / 64].load(std::memory_order_relaxed) >>
            (chunk % 64)) &
           1;
  }
  void set_verified(size_t chunk) const {
    verified_[chunk / 64].fetch_or(uint64_t{1} << (chunk % 64),
                                   std::memory_order_relaxed);
  }

 private:
  ChunkDirectoryRef layout_;
  ChunkDirectory boundaries_;
  uint64_t first_ = 0;
  std::unique_ptr<std::atomic<uint64_t>[]> verified_;
};

}  // namespace nimble
