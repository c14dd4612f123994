// FetchedBodies: the parts of segment bodies that one operation needs from a
// file that is not mapped. Wanted ranges are collected first, then read
// together in one round. Afterwards each segment can be used as if it was in
// memory, but only the wanted ranges are filled in. Not thread-safe.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "nimble/encoding/core/encoding.h"
#include "nimble/format/group.h"
#include "nimble/io/range_cache.h"
#include "nimble/io/readable_file.h"
#include "nimble/memory/sparse_arena.h"
#include "nimble/open/joined_reads.h"
#include "nimble/open/read_stats.h"

namespace nimble {

class FetchedBodies {
 public:
  // Borrows its arguments. `shared` is for count(), for a file that was just
  // opened. It has the offsets for which this or another object has called
  // want_bytes().
  FetchedBodies(const ReadableFile& file, RangeCache* cache, ReadStats* stats,
                std::set<uint64_t>* shared = nullptr)
      : file_(file), cache_(cache), stats_(stats), shared_(shared) {}

  // Requests the bytes that rows [begin, end) of a segment need.
  void want(const SegmentRef& segment, const Decoder& decoder, uint32_t begin,
            uint32_t end);
  // Requests bytes for the range cache. Does nothing if all such requests would
  // exceed `most` bytes in total.
  void want_bytes(uint64_t offset, uint64_t size, uint64_t most);
  // The number and total size of the requests that fetch() would make without a
  // cache.
  void count(uint64_t* reads, uint64_t* bytes);
  // Appends the requested ranges of the file, ascending, and joins ranges if
  // the gap between them is at most `gap` bytes. For callers that do not call
  // fetch().
  void append_wanted(uint64_t gap, std::vector<ByteRange>* out);
  // Upper bound for the bytes that fetch() reads, including gaps between near
  // ranges.
  uint64_t most_bytes() const { return most_bytes_; }
  // Reads everything that was requested since the previous call. May block on
  // reads.
  Status fetch();
  // The segment, with the bytes fetched so far. Valid as long as this object.
  SegmentBody body(const SegmentRef& segment) const;

 private:
  struct Wanted {
    ByteRange in_file;
    uint8_t* to;
  };
  struct Buffer {
    uint8_t* bytes = nullptr;       // allocated in arena_
    std::vector<ByteRange> filled;  // filled, or requested
  };
  Buffer& buffer_of(const SegmentRef& segment);
  void want_ranges(const SegmentRef& segment);  // the ranges in ranges_
  void sort_wanted();
  std::vector<JoinedRead> join() const;  // of ranges_, ascending

  const ReadableFile& file_;
  RangeCache* cache_;
  ReadStats* stats_;
  uint64_t wanted_for_cache_ = 0;
  std::set<uint64_t>* shared_;  // null: count() is not used
  // By file offset and size, because a hostile file may have segments of
  // different sizes at the same offset. A buffer is as large as its segment.
  std::map<std::pair<uint64_t, uint64_t>, Buffer> buffers_;
  SparseArena arena_;
  std::vector<Wanted> wanted_;
  std::vector<ByteRange> ranges_;
  uint64_t most_bytes_ = 0;
};

}  // namespace nimble
