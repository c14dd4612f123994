// RowBitmap: an immutable set of row numbers, stored like a Roaring bitmap.
// Rows that are equal except for their lowest 16 bits form a container: a
// sorted list if they are few, else a bitmap. Thread-safe.
// docs/internals/decisions/0041-deleted-rows-as-bitmaps.md.
#pragma once

#include <span>
#include <vector>

#include "nimble/base/row_range.h"

namespace nimble {

class RowBitmap {
 public:
  RowBitmap() = default;
  // Rows may be in any order and may repeat.
  explicit RowBitmap(std::span<const uint64_t> rows);

  uint64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // The greatest row.
  // REQUIRES: !empty().
  uint64_t last() const { return last_; }
  uint64_t memory_bytes() const;

  bool contains(uint64_t row) const {
    const Container* c = find(row >> 16);
    return c != nullptr && contains(*c, static_cast<uint16_t>(row));
  }
  // Returns the union of both sets. Takes time linear in their sizes.
  RowBitmap with(const RowBitmap& other) const;
  // Appends the parts of a range that are not in the set, in ascending order.
  void append_absent(RowRange range, std::vector<RowRange>* out) const;
  // Returns the set in the portable format of 64-bit Roaring bitmaps, with the
  // bytes that Java writes: it serializes an empty bitmap for each skipped key
  // of 32 bits, and stores a container as runs if that is smaller.
  // Takes 12 bytes for each 2^32 rows up to the last one.
  // https://github.com/RoaringBitmap/RoaringFormatSpec
  std::vector<uint8_t> roaring() const;
  // Appends the rows of the set, in ascending order.
  void append_rows(std::vector<uint64_t>* out) const;

 private:
  // Larger containers take less space as a bitmap.
  static constexpr size_t kMostListed = 4096;
  static constexpr size_t kWords = 1024;

  struct Container {
    uint64_t high;
    uint64_t begin;  // in lists_ or words_
    uint32_t count;
    bool is_list() const { return count <= kMostListed; }
  };

  std::span<const uint16_t> list_of(const Container& c) const {
    return std::span(lists_).subspan(c.begin, c.count);
  }
  // Sets the bits of a container's rows.
  void set_bits(const Container& c, std::span<uint64_t> words) const;
  // Copies a container of `set`. append_both() appends the union of two
  // containers.
  void append(const RowBitmap& set, const Container& c);
  void append_both(const RowBitmap& one, const Container& a,
                   const RowBitmap& other, const Container& b);
  void append_list(uint64_t high, std::span<const uint16_t> rows);
  // The number of runs of adjacent rows in a container.
  uint32_t runs_in(const Container& c) const;
  // Appends the bytes of a container's rows, as runs or not.
  void append_bytes(const Container& c, uint32_t runs,
                    std::vector<uint8_t>* out) const;
  // Appends the 32-bit Roaring bitmap of adjacent containers.
  void append_roaring(std::span<const Container> containers,
                      std::vector<uint8_t>* out) const;
  const Container* find(uint64_t high) const;
  bool contains(const Container& c, uint16_t low) const;
  // Calls f(row) for the rows of a container from `first` on, in ascending
  // order, until f returns false. Returns false in that case.
  template <class F>
  bool each_from(const Container& c, uint64_t first, const F& f) const;

  std::vector<Container> containers_;
  std::vector<uint16_t> lists_;
  std::vector<uint64_t> words_;
  uint64_t size_ = 0;
  uint64_t last_ = 0;
};

}  // namespace nimble
