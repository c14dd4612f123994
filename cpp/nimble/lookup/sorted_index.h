// SortedIndex: a file's rows in the order of some columns. A place is a
// position in that order: equal keys have neighbouring places, lower rows
// first. docs/format/sorted_index.md. Any number of threads may use one.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "nimble/base/row_range.h"
#include "nimble/format/group.h"
#include "nimble/io/slot_cache.h"
#include "nimble/key/key_bounds.h"
#include "nimble/lookup/index_lookup.h"
#include "nimble/lookup/key_chunk_source.h"

namespace nimble {

class SortedIndex {
 public:
  // `root` has passed its checksum.
  static Result<std::unique_ptr<SortedIndex>> open(const OpenFile& file,
                                                   std::vector<uint8_t> root);
  ~SortedIndex();

  const OpenFile& file() const { return file_; }
  uint64_t num_entries() const { return num_entries_; }

 private:
  friend class SortedCursor;

  // The chunks of a group, loaded when they are needed.
  struct Group;
  using GroupHandle = SlotHandle<Group>;

  explicit SortedIndex(const OpenFile& file);
  Status read_root(ByteSpan bytes);
  Result<GroupHandle> group(size_t i) const;
  Result<GroupHandle> load_group(size_t i) const;
  Result<std::unique_ptr<const Group>> read_group(size_t i) const;
  uint64_t first_place(size_t group) const {
    return group == 0 ? 0 : end_places_[group - 1];
  }

  const OpenFile& file_;
  std::vector<uint64_t> root_;  // its bytes, aligned
  uint32_t row_width_ = 0;
  uint64_t num_entries_ = 0;
  std::vector<SectionRef> sections_;
  std::vector<uint64_t> end_places_;
  ChunkDirectory boundaries_;
  std::unique_ptr<SlotCache<Group>> groups_;
};

// Finds places, cheapest in ascending order, and the rows at them. Not
// thread-safe; make one a thread or a batch.
class SortedCursor {
 public:
  explicit SortedCursor(const SortedIndex& index)
      : index_(index), chunks_(index.file_) {}

  // First place whose entry is >= target; num_entries() where there is none.
  Result<uint64_t> lower_bound(ByteSpan target);
  // Places of entries that begin with `prefix`: a whole key, or its first
  // columns.
  Result<PlaceRange> find_prefix(ByteSpan prefix);
  Result<PlaceRange> find_range(const KeyRange& range);
  // The first row with a whole key.
  Result<std::optional<uint64_t>> find_first(ByteSpan key);
  // Appends the rows at these places, in order.
  Status rows(PlaceRange places, std::vector<uint64_t>* out);
  // Is there this entry, a key and its row?
  Result<bool> has_entry(ByteSpan key, uint64_t row);
  // Replaces *out by the entries at these places, keys and rows.
  Status entries(PlaceRange places, KeyBuffer* out);

 private:
  Status open_group(size_t group);
  Status open_chunk(size_t chunk);
  Status open_place(uint64_t place);
  Result<uint64_t> row_of(ByteSpan entry) const;

  const SortedIndex& index_;
  KeyChunkSource chunks_;
  SortedIndex::GroupHandle group_;
  size_t group_index_ = 0;
  size_t chunk_index_ = 0;
  const KeyChunk* chunk_ = nullptr;
  uint64_t chunk_first_ = 0;  // place
  uint32_t last_ = 0;         // answer of the last search in the chunk
  ByteBuffer last_target_, successor_, wanted_, found_;
  KeyBuffer entries_;
};

}  // namespace nimble
