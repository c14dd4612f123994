// OpenFile: the parts of an open file that all readers share: its bytes,
// footer, stream plan, counters and caches. FileReader adds the objects that
// readers build from these. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nimble/column/column.h"
#include "nimble/format/postscript.h"
#include "nimble/io/range_cache.h"
#include "nimble/io/read_lock.h"
#include "nimble/io/readable_file.h"
#include "nimble/key/key_encoder.h"
#include "nimble/open/group_cache.h"

namespace nimble {

// Options for opening a file. `cache_bytes` limits the caches.
struct ReaderOptions {
  uint64_t cache_bytes = uint64_t{256} << 20;
};

class OpenFile {
 public:
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  const ReadableFile& file() const { return *file_; }
  const std::shared_ptr<const ReadableFile>& file_owner() const {
    return file_;
  }
  const FileFooter& footer() const { return footer_; }
  const Postscript& postscript() const { return postscript_; }
  const StreamPlan& plan() const { return *plan_; }
  uint64_t num_rows() const { return footer_.num_rows; }
  const GroupCache& groups() const { return *groups_; }
  const FileShared& shared() const { return *shared_; }
  RangeCache* range_cache() const { return range_cache_.get(); }
  // Counts the memory that the file keeps.
  CacheBudget* budget() const { return budget_.get(); }
  ReadStats* stats() const { return stats_.get(); }

  // The group that contains a file row.
  // REQUIRES: row < num_rows().
  size_t group_of(uint64_t row) const;

  // Cluster key: null or empty if the file has no cluster key.
  const KeyEncoder* encoder() const { return encoder_ ? &*encoder_ : nullptr; }
  const ChunkDirectory& group_boundaries() const { return group_boundaries_; }

  // The values of a dictionary column (a node of plan()). Calls `read` on first
  // use. May block on a read.
  using Dictionary = std::shared_ptr<const DictionaryValues>;
  using ReadDictionary = Result<Dictionary> (*)(const OpenFile&,
                                                const NodeSection&);
  Result<Dictionary> dictionary(uint32_t node, ReadDictionary read) const;

  // The bytes of a section, kept in memory as long as the handle exists.
  struct Section {
    Section(std::vector<uint8_t> b, std::atomic<uint64_t>* total)
        : bytes(std::move(b)), memory(total) {
      memory.add(sizeof *this + bytes.capacity());
    }
    std::vector<uint8_t> bytes;
    MemoryCounter memory;
  };
  using SectionHandle = SlotHandle<Section>;
  // Zone map i of the footer, read on first use. May block on a read.
  Result<SectionHandle> zone_map(size_t i) const;

  // Reads a section and verifies its checksum. `what` names it in messages. May
  // block on a read.
  Result<std::vector<uint8_t>> read_section(const SectionRef& section,
                                            const std::string& what) const;
  // Verifies the checksum of a section's bytes.
  Status check_section(const SectionRef& section, ByteSpan bytes,
                       const std::string& what) const;

 protected:
  OpenFile() = default;
  ~OpenFile() = default;
  // Reads the end of the file. Must be called once, before all other functions.
  Status open(std::shared_ptr<const ReadableFile> file,
              const ReaderOptions& options);

 private:
  Status read_tail();
  Status prepare();
  Result<SectionHandle> read_zone_map(size_t i) const;

  // Indexed by node. Kept in memory after the first read, because batches share
  // them.
  struct Dictionaries {
    ReadMutex mutex{[this](bool was_held) {
      if (was_held) reinit_leaking(&values);
    }};
    std::map<uint32_t, Dictionary> values;
  };

  std::shared_ptr<const ReadableFile> file_;
  Postscript postscript_;
  FileFooter footer_;
  std::unique_ptr<StreamPlan> plan_;
  std::unique_ptr<ReadStats> stats_ = std::make_unique<ReadStats>();
  std::unique_ptr<CacheBudget> budget_;  // outlives the caches that it limits
  std::unique_ptr<FileShared> shared_;   // outlives the groups' decoders
  std::unique_ptr<GroupCache> groups_;
  std::unique_ptr<RangeCache> range_cache_;
  std::unique_ptr<SlotCache<Section>> zones_;
  std::optional<KeyEncoder> encoder_;
  ChunkDirectory group_boundaries_;
  std::unique_ptr<Dictionaries> dictionaries_ =
      std::make_unique<Dictionaries>();
};

}  // namespace nimble
