// Reads ranges of a file that is not mapped, in one round. If ranges are near
// each other, they share a request, because a request costs more than reading
// the bytes between them.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "nimble/encoding/core/encoding.h"
#include "nimble/io/readable_file.h"
#include "nimble/open/read_stats.h"

namespace nimble {

// One request, for the joined ranges [first, last).
struct JoinedRead {
  uint64_t begin, end;  // in the file
  size_t first, last;
  std::shared_ptr<std::vector<uint8_t>> bytes;  // null until it is read

  uint64_t size() const { return end - begin; }
  // Returns the bytes of one of the request's ranges. The range begins at
  // `offset` in the file.
  const uint8_t* at(uint64_t offset) const {
    return bytes->data() + (offset - begin);
  }
};

// Joins ranges if the gap between them is at most `gap` bytes.
// REQUIRES: ranges ascend by begin.
std::vector<JoinedRead> join_ranges(std::span<const ByteRange> ascending,
                                    uint64_t gap);
uint64_t total_size(const std::vector<JoinedRead>& reads);
// Reads the bytes of all requests in one round, which `stats` counts. May block
// on reads.
Status read_joined(const ReadableFile& file, ReadStats* stats, ReadKind kind,
                   std::vector<JoinedRead>* reads);

}  // namespace nimble
