// GroupCache: the stripe groups of a file that are in memory, with their
// prepared decoders. Using a loaded group takes no lock, and it stays as long
// as its handle lives; what nobody uses is dropped when a file keeps more than
// its budget.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "nimble/base/memory_counter.h"
#include "nimble/encoding/core/encoding.h"
#include "nimble/format/footer.h"
#include "nimble/format/group.h"
#include "nimble/index/chunk_directory.h"
#include "nimble/io/readable_file.h"
#include "nimble/io/slot_cache.h"
#include "nimble/open/read_stats.h"

namespace nimble {

// Where a key chunk lies in the file, and which rows of it are its own.
struct ChunkPlace {
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t first_row = 0;  // file row
  uint32_t num_keys = 0;
};

// One loaded group. Decoders are made on first use.
class LoadedGroup {
 public:
  // `part` counts its memory, and gives way when that grows; null: nobody does.
  LoadedGroup(GroupView group, std::vector<uint8_t> bytes,
              ChunkDirectory chunks, uint64_t first_row,
              const CacheBudget::Part* part);
  ~LoadedGroup();
  LoadedGroup(const LoadedGroup&) = delete;
  LoadedGroup& operator=(const LoadedGroup&) = delete;

  const GroupView& view() const { return view_; }
  // File row of the group's first row.
  uint64_t first_row() const { return first_row_; }
  const ChunkDirectory& chunks() const { return chunks_; }
  ChunkPlace chunk_place(size_t chunk) const {
    const ChunkDirectoryRef& d = view_.chunks();
    const uint64_t begin = chunk == 0 ? 0 : d.chunk_ends[chunk - 1];
    const uint64_t row = chunk == 0 ? 0 : d.chunk_end_rows[chunk - 1];
    return {d.key_stream_offset + begin, d.chunk_ends[chunk] - begin,
            first_row_ + row,
            static_cast<uint32_t>(d.chunk_end_rows[chunk] - row)};
  }
  // Segment `index` of a stream of a stripe; `type` is the stream's.
  Result<const Decoder*> decoder(const StripeView& stripe, uint32_t stream,
                                 uint32_t index, ValueType type) const;

  // Has the checksum of a mapped key chunk been verified?
  bool chunk_verified(size_t chunk) const {
    return (chunk_bits_[chunk / 64].load(std::memory_order_relaxed) >>
            (chunk % 64)) &
           1;
  }
  void set_chunk_verified(size_t chunk) const {
    chunk_bits_[chunk / 64].fetch_or(uint64_t{1} << (chunk % 64),
                                     std::memory_order_relaxed);
  }

 private:
  std::vector<uint8_t> bytes_;  // empty where the file is mapped
  GroupView view_;
  ChunkDirectory chunks_;
  uint64_t first_row_;
  std::unique_ptr<std::atomic<const Decoder*>[]> decoders_;
  std::unique_ptr<std::atomic<uint64_t>[]> chunk_bits_;
  const CacheBudget::Part* const part_;
  mutable MemoryCounter memory_;
};

// A group in memory, as long as the handle lives.
using GroupHandle = SlotHandle<LoadedGroup>;

class GroupCache {
 public:
  GroupCache(const ReadableFile& file, const FileFooter& footer,
             const StreamPlan& plan, ReadStats* stats, CacheBudget* budget);

  // The group; `kind` says what a read is counted as where it must be loaded.
  // May wait for that.
  Result<GroupHandle> get(size_t group, ReadKind kind = ReadKind::kOpen) const {
    GroupHandle loaded = groups_.find(group);
    if (loaded) [[likely]] {
      return loaded;
    }
    return load(group, kind);
  }
  // Loads those of a file that is not mapped that are missing, in one round of
  // reads, as far as half of the cache has room for them. May wait for it.
  Status load_together(std::span<const size_t> groups, ReadKind kind) const;
  uint64_t first_row(size_t group) const {
    return group == 0 ? 0 : footer_.groups[group - 1].end_row;
  }
  uint64_t end_row(size_t group) const { return footer_.groups[group].end_row; }

 private:
  Result<GroupHandle> load(size_t group, ReadKind kind) const;
  Result<GroupHandle> load_locked(size_t group, ReadKind kind) const;
  Status load_locked(std::span<const size_t> groups, ReadKind kind) const;
  // `owned` are the group's bytes where the file is not mapped.
  Result<std::unique_ptr<LoadedGroup>> open_group(
      size_t group, std::vector<uint8_t> owned) const;
  Status in_group(size_t group, Status status) const;

  const ReadableFile& file_;
  const FileFooter& footer_;
  const StreamPlan& plan_;
  ReadStats* stats_;
  SlotCache<LoadedGroup> groups_;
};

}  // namespace nimble
