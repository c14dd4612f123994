// GroupCache: the stripe groups of a file that are in memory, with their
// decoders. Using a loaded group takes no lock, and a group stays valid as long
// as its handle. Unused groups are dropped if the file exceeds its budget.
// Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "nimble/encoding/core/encoding.h"
#include "nimble/format/footer.h"
#include "nimble/format/group.h"
#include "nimble/index/key_chunk_group.h"
#include "nimble/io/readable_file.h"
#include "nimble/io/slot_cache.h"
#include "nimble/memory/memory_counter.h"
#include "nimble/open/file_shared.h"
#include "nimble/open/read_stats.h"

namespace nimble {

// One loaded group. Decoders are created on first use. Thread-safe.
class LoadedGroup {
 public:
  // `part` counts the group's memory. When the memory grows, the caches of its
  // budget are shrunk. `part` may be null. `shared` belongs to the file. It is
  // null for a group of dictionary values.
  LoadedGroup(GroupView group, std::vector<uint8_t> bytes,
              ChunkDirectory chunks, uint64_t first_row,
              const FileShared* shared, const CacheBudget::Part* part);
  ~LoadedGroup();
  LoadedGroup(const LoadedGroup&) = delete;
  LoadedGroup& operator=(const LoadedGroup&) = delete;

  const GroupView& view() const { return view_; }
  // The chunks of the cluster index. Their places are file rows.
  const KeyChunkGroup& keys() const { return keys_; }
  // The decoder of a segment of the group, or null if it was not created yet.
  const Decoder* made_decoder(uint32_t segment) const {
    return decoders_[segment].load(std::memory_order_acquire);
  }
  // Returns the decoder of segment `index` of a stream of a stripe. `type` is
  // the stream's type. Valid as long as the group.
  Result<const Decoder*> decoder(const StripeView& stripe, uint32_t stream,
                                 uint32_t index, ValueType type) const;

 private:
  std::vector<uint8_t> bytes_;  // empty if the file is mapped
  GroupView view_;
  KeyChunkGroup keys_;
  std::unique_ptr<std::atomic<const Decoder*>[]> decoders_;
  const FileShared* const shared_;
  const CacheBudget::Part* const part_;
  mutable MemoryCounter memory_;
};

// A group, kept in memory as long as the handle exists.
using GroupHandle = SlotHandle<LoadedGroup>;

class GroupCache {
 public:
  GroupCache(const ReadableFile& file, const FileFooter& footer,
             const StreamPlan& plan, const FileShared* shared, ReadStats* stats,
             CacheBudget* budget);

  // Returns a group, after loading it if necessary. `kind` says how a read is
  // counted. May block on a read.
  Result<GroupHandle> get(size_t group, ReadKind kind = ReadKind::kOpen) const {
    GroupHandle loaded = groups_.find(group);
    if (loaded) [[likely]] {
      return loaded;
    }
    return load(group, kind);
  }
  // If the file is not mapped, loads missing groups in one round of reads.
  // Loads only as many groups as fit in half of the cache. May block on reads.
  Status load_together(std::span<const size_t> groups, ReadKind kind) const;
  uint64_t first_row(size_t group) const {
    return group == 0 ? 0 : footer_.groups[group - 1].end_row;
  }
  uint64_t end_row(size_t group) const { return footer_.groups[group].end_row; }

 private:
  Result<GroupHandle> load(size_t group, ReadKind kind) const;
  Result<GroupHandle> load_locked(size_t group, ReadKind kind) const;
  Status load_locked(std::span<const size_t> groups, ReadKind kind) const;
  // `owned` has the group's bytes if the file is not mapped.
  Result<std::unique_ptr<LoadedGroup>> open_group(
      size_t group, std::vector<uint8_t> owned) const;
  Status in_group(size_t group, Status status) const;

  const ReadableFile& file_;
  const FileFooter& footer_;
  const StreamPlan& plan_;
  const FileShared* shared_;
  ReadStats* stats_;
  SlotCache<LoadedGroup> groups_;
};

}  // namespace nimble
