// SortedIndex: the rows of a file in the order of key columns. A place is a
// position in that order. Equal keys have adjacent places, lower rows first.
// Thread-safe. docs/format/sorted_index.md.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "nimble/base/row_range.h"
#include "nimble/cursor/key_cursor.h"
#include "nimble/lookup/index_lookup.h"

namespace nimble {

class SortedIndex final : public KeyOrder {
 public:
  // Borrows `file`.
  // REQUIRES: the checksum of `root` is verified.
  static Result<std::unique_ptr<SortedIndex>> open(const OpenFile& file,
                                                   std::vector<uint8_t> root);
  ~SortedIndex() override;

  const OpenFile& file() const override { return file_; }
  // The number of entries. An entry is a key followed by its row.
  uint64_t num_keys() const override { return num_entries_; }
  const ChunkDirectory& groups() const override { return boundaries_; }
  size_t group_at(uint64_t place) const override;
  Result<KeyGroupHandle> group(size_t i) const override;
  // Width in bytes of the row at the end of an entry.
  uint32_t row_width() const { return row_width_; }

 private:
  struct Group;  // owns its bytes and chunks
  using GroupHandle = SlotHandle<Group>;

  explicit SortedIndex(const OpenFile& file);
  Status read_root(ByteSpan bytes);
  Result<GroupHandle> load_group(size_t i) const;
  Result<std::unique_ptr<const Group>> read_group(size_t i) const;

  const OpenFile& file_;
  std::vector<uint64_t> root_;  // its bytes, aligned
  uint32_t row_width_ = 0;
  uint64_t num_entries_ = 0;
  std::vector<SectionRef> sections_;
  std::vector<uint64_t> end_places_;
  ChunkDirectory boundaries_;
  std::unique_ptr<SlotCache<Group>> groups_;
};

// Finds places in a sorted index and the rows at them. Ascending searches are
// cheapest. May block on reads. Borrows the index. Not thread-safe: create one
// cursor per thread or per batch.
class SortedCursor {
 public:
  explicit SortedCursor(const SortedIndex& index)
      : index_(index), keys_(index) {}

  // Returns the first place whose entry is >= target, or num_keys() if all
  // entries are below the target.
  Result<uint64_t> lower_bound(ByteSpan target) {
    return keys_.lower_bound(target);
  }
  // Returns the places of entries that begin with `prefix`. A prefix is a whole
  // key or the values of its first columns.
  Result<PlaceRange> find_prefix(ByteSpan prefix) {
    return keys_.find_prefix(prefix);
  }
  Result<PlaceRange> find_range(const KeyRange& range) {
    return keys_.find_range(range);
  }
  // Returns the first row with a whole key.
  Result<std::optional<uint64_t>> find_first(ByteSpan key);
  // Appends the rows at these places, in order.
  Status rows(PlaceRange places, std::vector<uint64_t>* out);
  // Whether the index has this entry, a key and its row.
  Result<bool> has_entry(ByteSpan key, uint64_t row);
  // Replaces *out by the entries at these places. An entry is a key followed by
  // its row.
  Status entries(PlaceRange places, KeyBuffer* out);

 private:
  Result<uint64_t> row_of(ByteSpan entry) const;

  const SortedIndex& index_;
  KeyCursor keys_;
  ByteBuffer wanted_;
  KeyBuffer entries_;
};

}  // namespace nimble
