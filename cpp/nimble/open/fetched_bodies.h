// FetchedBodies: the parts of segment bodies that one operation needs of a
// file that is not mapped. Wanted ranges are collected first, then read
// together as one round; each segment then looks as if it were in memory, but
// only the wanted ranges are filled in.
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
  // `shared`: for count(), of a file that has just been opened; the offsets
  // that want_bytes() was called with before, by others too.
  FetchedBodies(const ReadableFile& file, RangeCache* cache, ReadStats* stats,
                std::set<uint64_t>* shared = nullptr)
      : file_(file), cache_(cache), stats_(stats), shared_(shared) {}

  // Wants what rows [begin, end) of a segment need.
  void want(const SegmentRef& segment, const Decoder& decoder, uint32_t begin,
            uint32_t end);
  // Wants bytes of the file that others will find in its cache, unless these
  // would be more than `most` in all.
  void want_bytes(uint64_t offset, uint64_t size, uint64_t most);
  // How many requests, of how many bytes, fetch() would make without a cache.
  void count(uint64_t* reads, uint64_t* bytes);
  // How much fetch() would read at most, what lies between near ranges
  // included.
  uint64_t most_bytes() const { return most_bytes_; }
  // Reads everything wanted since the last call.
  Status fetch();
  // The segment, with what has been fetched of it.
  SegmentBody body(const SegmentRef& segment) const;

 private:
  struct Wanted {
    ByteRange in_file;
    uint8_t* to;
  };
  struct Buffer {
    uint8_t* bytes = nullptr;       // of the arena
    std::vector<ByteRange> filled;  // or wanted: not to be wanted again
  };
  Buffer& buffer_of(const SegmentRef& segment);
  void want_ranges(const SegmentRef& segment);  // those of ranges_
  void sort_wanted();
  std::vector<JoinedRead> join() const;  // ranges_, ascending

  const ReadableFile& file_;
  RangeCache* cache_;
  ReadStats* stats_;
  uint64_t wanted_for_cache_ = 0;
  std::set<uint64_t>* shared_;  // null: it is not for count()
  // By offset in the file and size: a hostile file may say that segments of
  // different sizes begin at one place. A buffer is as large as its segment.
  std::map<std::pair<uint64_t, uint64_t>, Buffer> buffers_;
  SparseArena arena_;
  std::vector<Wanted> wanted_;
  std::vector<ByteRange> ranges_;
  uint64_t most_bytes_ = 0;
};

}  // namespace nimble
