// ChunkDirectory: finds the chunk of a group, or the group of a file, that may
// contain a key. Searches boundary keys. Thread-safe.
#pragma once

#include <span>
#include <vector>

#include "nimble/base/result.h"
#include "nimble/key/key_buffer.h"

namespace nimble {

class ChunkDirectory {
 public:
  // Borrows both. Boundary i is key_bytes[key_ends[i - 1], key_ends[i]).
  // Prepares the bytes after the common prefix for fast searches.
  static Result<ChunkDirectory> open(ByteSpan key_bytes,
                                     std::span<const uint32_t> key_ends);

  size_t size() const { return ends_.size(); }
  ByteSpan boundary(size_t i) const {
    const uint32_t begin = i == 0 ? 0 : ends_[i - 1];
    return bytes_.subspan(begin, ends_[i] - begin);
  }
  // Returns the first boundary >= target, or size() if all boundaries are below
  // the target. The first key >= target is usually in this chunk. But the
  // target may be between the chunk's last key and its shortened boundary. Then
  // that key is the first key of the next chunk.
  size_t find(ByteSpan target) const { return find_from(0, target); }
  // Like find(), for ascending targets. `start` is the answer for the previous
  // target.
  size_t find_from(size_t start, ByteSpan target) const;
  // Estimates the target's relative position in chunk i, 0 to 1, assuming
  // evenly spaced keys.
  // REQUIRES: find() returned i.
  double place_in(size_t i, ByteSpan target) const;

 private:
  uint64_t head(ByteSpan target) const {
    const ByteSpan rest =
        target.subspan(std::min(prefix_.size(), target.size()));
    return head_of(rest.data(), rest.size());
  }

  ByteSpan bytes_;
  std::span<const uint32_t> ends_;
  ByteSpan prefix_;              // common to all boundaries
  std::vector<uint64_t> heads_;  // the next 8 bytes, big-endian
};

}  // namespace nimble
