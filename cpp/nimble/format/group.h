// The metadata of one stripe group, validated when it is loaded and then
// accessed in place. docs/format/groups.md.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "nimble/base/bytes.h"
#include "nimble/base/result.h"
#include "nimble/format/stream_plan.h"

namespace nimble {

// One segment of a stream. The offset and the size are those of its body.
struct SegmentRef {
  uint64_t offset = 0;  // of its body, in the file
  uint64_t size = 0;
  ByteSpan head;
};

// ---------------------------------------------------------------- writing

// The metadata of one stripe.
struct StripeMeta {
  uint64_t rows = 0;
  std::vector<uint64_t> values;  // per stream
  std::vector<uint64_t> segment_offsets;
  std::vector<uint64_t> segment_sizes;
  std::vector<uint32_t> head_ends;
  std::vector<uint8_t> heads;
};

// The directory of a group's key chunks.
struct ChunkDirectoryMeta {
  std::vector<uint64_t> chunk_end_rows;
  std::vector<uint64_t> chunk_ends;
  uint64_t key_stream_offset = 0;
  std::vector<uint8_t> key_bytes;
  std::vector<uint32_t> key_ends;
};

std::vector<uint8_t> serialize_group(const std::vector<StripeMeta>& stripes,
                                     const ChunkDirectoryMeta* chunks);

// ---------------------------------------------------------------- reading

// A stripe's metadata. Points into the group's bytes.
struct StripeView {
  uint64_t first_row = 0;  // file row
  uint64_t rows = 0;
  std::span<const uint64_t> values;
  std::span<const uint64_t> segment_offsets;
  std::span<const uint64_t> segment_sizes;
  std::span<const uint32_t> head_ends;
  ByteSpan heads;
  // Index of each stream's first segment in the stripe.
  std::vector<uint32_t> first_segment;
  // Index of the stripe's first segment in the group.
  uint32_t segment_base = 0;

  SegmentRef segment(uint32_t i) const {
    const uint32_t begin = i == 0 ? 0 : head_ends[i - 1];
    return {segment_offsets[i], segment_sizes[i],
            heads.subspan(begin, head_ends[i] - begin)};
  }
};

// A chunk directory that points into a FlatBuffer.
struct ChunkDirectoryRef {
  std::span<const uint64_t> chunk_end_rows;
  std::span<const uint64_t> chunk_ends;
  uint64_t key_stream_offset = 0;
  ByteSpan key_bytes;
  std::span<const uint32_t> key_ends;
};

namespace fb {
struct ChunkDirectory;  // from group.fbs
}
// Validates a directory of chunks. They must have `rows` keys in total and end
// at or before `limit`.
// REQUIRES: `directory` is in a verified FlatBuffer that outlives the result.
Result<ChunkDirectoryRef> open_chunks(const fb::ChunkDirectory& directory,
                                      uint64_t rows, uint64_t limit);

// A validated group. Thread-safe.
class GroupView {
 public:
  // Opens a group that begins at file row `first_row`. Fails unless the group
  // has `num_rows` rows and its data ends at or before `limit`. Bytes that are
  // not aligned are copied.
  // REQUIRES: the checksum of `bytes` is verified; `bytes` outlive the view.
  static Result<GroupView> open(ByteSpan bytes, const StreamPlan& plan,
                                uint64_t first_row, uint64_t num_rows,
                                uint64_t limit);

  const std::vector<StripeView>& stripes() const { return stripes_; }
  const ChunkDirectoryRef& chunks() const { return chunks_; }
  bool has_chunks() const { return has_chunks_; }
  uint32_t num_segments() const { return num_segments_; }
  // The stripe that contains a file row of this group.
  const StripeView& stripe_of(uint64_t row) const;
  uint64_t memory_bytes() const;

 private:
  std::vector<uint64_t> copy_;
  std::vector<StripeView> stripes_;
  ChunkDirectoryRef chunks_;
  bool has_chunks_ = false;
  uint32_t num_segments_ = 0;
};

}  // namespace nimble
