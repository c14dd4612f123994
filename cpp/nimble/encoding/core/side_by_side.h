// Interleaves the parts of a segment's body, so that the bytes of a row are
// within a few KiB and one read fetches them. Without this, the parts of a row
// may be as far apart as the segment is large. The body is cut at multiples of
// a number of blocks. The pieces for the same rows are stored next to each
// other.
#pragma once

#include <span>

#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Files and disks fetch two ranges with one read if they are no further apart
// than this. Object stores accept larger gaps.
inline constexpr uint64_t kNearBytes = 4096;

// The head of a segment whose parts are in a body. A stream's values and its
// validity share one body.
struct SegmentHead {
  ByteBuffer* head;
  ValueType type;
  uint32_t size;
  uint64_t begin = 0;  // where its own body begins
  uint64_t end = 0;
};

// Moves the parts of `body` and rewrites the heads. Rows are grouped so that
// the bytes of one group take about `near` bytes. Returns false and changes
// nothing if this would not help: the body is no larger than `near`, a row
// needs only one part, or strings are too long. REQUIRES: all segments have the
// same number of rows.
Result<bool> lay_side_by_side(std::span<const SegmentHead> segments,
                              ByteBuffer* body, uint64_t near = kNearBytes);

}  // namespace nimble
