// Parts of a segment's body side by side: what a row needs of each of them lies
// within a few KiB, so that one read brings it, where the parts one after the
// other are as far apart as the segment is large. A body is cut where rows are
// multiples of some blocks, and each part's pieces lie where their rows are.
#pragma once

#include <span>

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// What is read at once where it lies no further apart, from files and disks;
// stores read more.
inline constexpr uint64_t kNearBytes = 4096;

// A segment whose parts are in a body: the values of a stream, and the validity
// that says which of them there are, have one body.
struct SegmentHead {
  ByteBuffer* head;
  ValueType type;
  uint32_t size;
  uint64_t begin = 0;  // where its own body begins in this one
  uint64_t end = 0;
};

// Moves the parts of `body` and writes the heads anew: true. Changes nothing
// where all of the body is near already, or one part has what a row needs:
// false. Segments have as many rows each. Rows that have a piece of each part
// take about `near` bytes.
Result<bool> lay_side_by_side(std::span<const SegmentHead> segments,
                              ByteBuffer* body, uint64_t near = kNearBytes);

}  // namespace nimble
