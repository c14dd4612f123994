// GroupCache: the stripe groups of a file that are in memory, with their
// prepared decoders. Lookups take no lock: a group is a pointer that is set
// once it is loaded. Groups are dropped when they and what their decoders hold
// exceed the budget, and freed when no reader can still see them: readers are
// counted by epoch, an epoch ends once all readers of the one before are gone,
// and two epochs after a group was dropped nobody has it.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "nimble/encoding/core/encoding.h"
#include "nimble/format/footer.h"
#include "nimble/format/group.h"
#include "nimble/index/chunk_directory.h"
#include "nimble/io/read_lock.h"
#include "nimble/io/readable_file.h"
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
  LoadedGroup(GroupView group, std::vector<uint8_t> bytes,
              ChunkDirectory chunks, uint64_t first_row);
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
  uint64_t memory_bytes() const;

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
};

class GroupCache {
 public:
  GroupCache(const ReadableFile& file, const FileFooter& footer,
             const StreamPlan& plan, ReadStats* stats, uint64_t capacity);
  ~GroupCache();

  // While one lives, the group that get() returned last on this thread stays
  // (and may be lent to threads that this one waits for). A local variable.
  class Pin {
   public:
    explicit Pin(const GroupCache& cache);
    ~Pin();
    Pin(const Pin&) = delete;
    Pin& operator=(const Pin&) = delete;

   private:
    friend class GroupCache;
    void enter();
    void leave() { count_->fetch_sub(1, std::memory_order_release); }

    const GroupCache& cache_;
    Pin* const outer_;  // made before by this thread, of any cache
    std::atomic<uint32_t>* count_ = nullptr;
  };

  // `kind` says what a read is counted as where the group must be loaded.
  Result<const LoadedGroup*> get(size_t group,
                                 ReadKind kind = ReadKind::kOpen) const {
    // In one order with Pin and evict(): a later pin must not see an older
    // group.
    const LoadedGroup* g = groups_[group].load(std::memory_order_seq_cst);
    if (g != nullptr) [[likely]] {
      return g;
    }
    return load(group, kind);
  }
  // Loads those of a file that is not mapped that are missing, in one round of
  // reads, as far as half of the cache has room for them.
  Status load_together(std::span<const size_t> groups, ReadKind kind) const;
  uint64_t memory_bytes() const;
  uint64_t first_row(size_t group) const {
    return group == 0 ? 0 : footer_.groups[group - 1].end_row;
  }
  uint64_t end_row(size_t group) const { return footer_.groups[group].end_row; }

 private:
  // Readers are counted in one of several places, by thread, so that threads
  // do not share a cache line.
  struct alignas(64) ReaderCount {
    std::array<std::atomic<uint32_t>, 2> readers{};  // by epoch, odd and even
  };
  struct Retired {
    uint64_t epoch;
    std::unique_ptr<const LoadedGroup> group;
  };
  // Lets go of the pin of a thread that holds one, and no group any more, until
  // the load for which it let go is done.
  class Unpinned;
  static constexpr size_t kReaderCounts = 64;

  Result<const LoadedGroup*> load(size_t group, ReadKind kind) const;
  Result<std::unique_ptr<LoadedGroup>> read_group(size_t group,
                                                  ReadKind kind) const;
  // `owned` are the group's bytes where the file is not mapped.
  Result<std::unique_ptr<LoadedGroup>> open_group(
      size_t group, std::vector<uint8_t> owned) const;
  const LoadedGroup* publish(size_t group,
                             std::unique_ptr<LoadedGroup> made) const;
  Status in_group(size_t group, Status status) const;
  void evict(size_t keep) const;
  void free_retired() const;
  void after_fork(bool was_held);

  const ReadableFile& file_;
  const FileFooter& footer_;
  const StreamPlan& plan_;
  ReadStats* stats_;
  const uint64_t capacity_;
  mutable std::vector<std::atomic<const LoadedGroup*>> groups_;
  mutable std::array<ReaderCount, kReaderCounts> readers_;
  mutable std::atomic<uint64_t> epoch_{0};
  mutable ReadMutex mutex_;               // loading and eviction
  mutable std::vector<size_t> loaded_;    // oldest first
  mutable std::vector<Retired> retired_;  // by epoch
};

}  // namespace nimble
