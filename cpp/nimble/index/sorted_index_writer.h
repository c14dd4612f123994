// SortedIndexWriter: receives the encoded keys of all rows in file order and
// writes them sorted, each with its row, as key chunks. Not thread-safe.
// docs/format/sorted_index.md.
//
//   add* finish
#pragma once

#include "nimble/index/cluster_index_writer.h"
#include "nimble/index/key_rows.h"
#include "nimble/index/section_sink.h"
#include "nimble/io/external_sorter.h"

namespace nimble {

// Options of a SortedIndexWriter.
struct SortedIndexOptions {
  uint32_t chunk_keys = 1024;
  uint32_t chunks_per_group = 512;
  KeyChunkOptions chunk;
  uint64_t memory_bytes = uint64_t{64} << 20;  // spills above this
  std::string spill_directory;                 // see SpillFile
  std::function<Status()> poll;                // see ExternalSorter
};

class SortedIndexWriter {
 public:
  explicit SortedIndexWriter(const SortedIndexOptions& options);

  // Adds keys [begin, end), which belong to the rows after those of the
  // previous call. May spill to disk.
  Status add(const KeyBuffer& keys, size_t begin, size_t end);
  uint64_t num_rows() const { return num_rows_; }
  // Writes key streams and directories. Returns the root's bytes, which the
  // caller must store.
  Result<std::vector<uint8_t>> finish(const SectionSink& sink);

 private:
  struct Group {
    SectionRef section;
    uint64_t end_place = 0;
  };
  // An entry is a key followed by its row, big-endian.
  Status add_entries(const KeyBuffer& entries, const SectionSink& sink);
  Status write_group(const SectionSink& sink);
  std::vector<uint8_t> serialize_root(uint32_t row_width) const;

  SortedIndexOptions options_;
  ExternalSorter<KeyRows> sorter_;
  uint64_t num_rows_ = 0;
  ClusterIndexWriter chunks_;
  std::vector<Group> groups_;
  std::vector<uint8_t> key_bytes_;
  std::vector<uint32_t> key_ends_;
  ByteBuffer first_entry_;
  uint64_t in_group_ = 0;
  uint64_t num_entries_ = 0;
};

}  // namespace nimble
