// ChunkDirectory: which chunk of a group, or which group of a file, may hold
// a key: binary search over the boundary keys.
#pragma once

#include <span>
#include <vector>

#include "nimble/base/result.h"
#include "nimble/key/key_buffer.h"

namespace nimble {

class ChunkDirectory {
 public:
  // Boundary i is key_bytes[key_ends[i - 1], key_ends[i]). Both are borrowed.
  // What is behind the common prefix is prepared once, for quick searches.
  static Result<ChunkDirectory> open(ByteSpan key_bytes,
                                     std::span<const uint32_t> key_ends);

  size_t size() const { return ends_.size(); }
  ByteSpan boundary(size_t i) const {
    const uint32_t begin = i == 0 ? 0 : ends_[i - 1];
    return bytes_.subspan(begin, ends_[i] - begin);
  }
  // The first boundary >= target; size() where there is none. The first key
  // >= target is then the first such key of this chunk, or the first key of
  // the next one where this chunk has none (a shortened boundary lies between
  // the two).
  size_t find(ByteSpan target) const { return find_from(0, target); }
  // The same for targets in ascending order, `start` being the last answer.
  size_t find_from(size_t start, ByteSpan target) const;
  // About how far inside chunk i, which find() gave, the target lies: 0 to 1,
  // as if the keys between two boundaries were at equal distances.
  double place_in(size_t i, ByteSpan target) const;

 private:
  uint64_t head(ByteSpan target) const {
    const ByteSpan rest =
        target.subspan(std::min(prefix_.size(), target.size()));
    return head_of(rest.data(), rest.size());
  }

  ByteSpan bytes_;
  std::span<const uint32_t> ends_;
  ByteSpan prefix_;              // of all boundaries
  std::vector<uint64_t> heads_;  // 8 bytes behind it, big-endian
};

}  // namespace nimble
