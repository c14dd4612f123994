// FileReader: an open file. Resident are the footer and what caches keep;
// everything else is read when asked for. Any number of threads may use one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nimble/column/dictionary_values.h"
#include "nimble/format/postscript.h"
#include "nimble/index/bloom_filter.h"
#include "nimble/io/range_cache.h"
#include "nimble/io/read_lock.h"
#include "nimble/io/readable_file.h"
#include "nimble/key/key_encoder.h"
#include "nimble/open/group_cache.h"
#include "nimble/write/options.h"

namespace nimble {

class IndexLookup;  // index_lookup.h
class RowKeys;      // row_keys.h

class ColumnBlooms;

class FileReader {
 public:
  static Result<std::shared_ptr<const FileReader>> open(
      std::shared_ptr<const ReadableFile> file, const ReaderOptions& options);

  const ReadableFile& file() const { return *file_; }
  const std::shared_ptr<const ReadableFile>& file_owner() const {
    return file_;
  }
  const FileFooter& footer() const { return footer_; }
  const Postscript& postscript() const { return postscript_; }
  const StreamPlan& plan() const { return *plan_; }
  uint64_t num_rows() const { return footer_.num_rows; }
  const GroupCache& groups() const { return *groups_; }
  RangeCache* range_cache() const { return range_cache_.get(); }
  ReadStats* stats() const { return stats_.get(); }

  // Number of the group that holds a file row < num_rows().
  size_t group_of(uint64_t row) const;

  // Cluster key: null / empty where the file has none.
  const KeyEncoder* encoder() const { return encoder_ ? &*encoder_ : nullptr; }
  // The keys of rows as their columns have them, where key chunks leave keys to
  // these; null in a file that holds all keys in chunks.
  Result<const RowKeys*> cluster_keys() const;
  const ChunkDirectory& group_boundaries() const { return group_boundaries_; }
  // The filter over whole keys, for a caller with `probes` keys to ask it
  // about. Null where there is none, and where the file is not mapped and
  // loading it would cost more than the probes so far could have saved.
  Result<const BloomFilter*> bloom(uint64_t probes) const;

  // Secondary index i of the footer, opened on first use and kept.
  Result<const IndexLookup*> index(size_t i) const;

  // The values of a dictionary column (a node of plan()), read on first use.
  Result<std::shared_ptr<const DictionaryValues>> dictionary(
      uint32_t node) const;

  // Bloom filters of columns, listed on first use; null where there are none.
  Result<std::shared_ptr<const ColumnBlooms>> column_blooms() const;

  // The zone map of a leaf, read on first use.
  Result<std::shared_ptr<const std::vector<uint8_t>>> zone_bytes(
      const NodeSection& ref) const;

  // Reads a section and verifies its checksum. `what` is for messages.
  Result<std::vector<uint8_t>> read_section(const SectionRef& section,
                                            const std::string& what) const;
  // Verifies the checksum of a section's bytes.
  Status check_section(const SectionRef& section, ByteSpan bytes,
                       const std::string& what) const;
  // Of caches and of indexes that have been opened.
  uint64_t memory_bytes() const;

 private:
  FileReader() = default;
  Status read_tail();
  Status prepare();
  Result<std::shared_ptr<const DictionaryValues>> read_dictionary(
      const NodeSection& ref) const;

  std::shared_ptr<const ReadableFile> file_;
  ReaderOptions options_;
  Postscript postscript_;
  FileFooter footer_;
  std::unique_ptr<StreamPlan> plan_;
  std::unique_ptr<ReadStats> stats_ = std::make_unique<ReadStats>();
  std::unique_ptr<GroupCache> groups_;
  std::unique_ptr<RangeCache> range_cache_;
  std::optional<KeyEncoder> encoder_;
  ChunkDirectory group_boundaries_;

  struct Lazy {
    ReadMutex mutex{[this](bool was_held) { after_fork(was_held); }};
    std::atomic<const BloomFilter*> bloom{nullptr};
    std::atomic<uint64_t> bloom_probes{0};
    std::optional<BloomFilter> bloom_filter;
    std::vector<uint8_t> bloom_bytes;
    std::atomic<const RowKeys*> cluster_keys{nullptr};
    std::shared_ptr<const RowKeys> cluster_keys_owner;
    std::map<uint32_t, std::shared_ptr<const DictionaryValues>> dictionaries;
    std::map<uint32_t, std::shared_ptr<const std::vector<uint8_t>>> zones;
    std::shared_ptr<const ColumnBlooms> column_blooms;

    void after_fork(bool was_held);
  };
  struct OpenIndex {
    ReadMutex mutex{[this](bool was_held) {
      if (was_held && ready.load() == nullptr) abandon(&owner);
    }};
    std::atomic<const IndexLookup*> ready{nullptr};
    std::shared_ptr<const IndexLookup> owner;
  };
  std::vector<std::unique_ptr<OpenIndex>> indexes_;
  std::unique_ptr<Lazy> lazy_ = std::make_unique<Lazy>();
};

}  // namespace nimble
