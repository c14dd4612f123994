// Ranges of a file that is not mapped, read in one round: near ones by one
// request, because a request costs more than the bytes between them.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "nimble/encoding/core/encoding.h"
#include "nimble/io/readable_file.h"
#include "nimble/open/read_stats.h"

namespace nimble {

// One request, for the ranges [first, last) of those that were joined.
struct JoinedRead {
  uint64_t begin, end;  // in the file
  size_t first, last;
  std::shared_ptr<std::vector<uint8_t>> bytes;  // once read

  uint64_t size() const { return end - begin; }
  // Of one of its ranges, by where that begins in the file.
  const uint8_t* at(uint64_t offset) const {
    return bytes->data() + (offset - begin);
  }
};

// `ascending` by begin; joined where the gap between them is at most `gap`.
std::vector<JoinedRead> join_ranges(std::span<const ByteRange> ascending,
                                    uint64_t gap);
uint64_t total_size(const std::vector<JoinedRead>& reads);
// Fills in their bytes, as one round that `stats` counts.
Status read_joined(const ReadableFile& file, ReadStats* stats, ReadKind kind,
                   std::vector<JoinedRead>* reads);

}  // namespace nimble
