// Kernels of the key encoder: they convert one column of a block of rows to key
// bytes.
#pragma once

#include <vector>

#include "nimble/key/key_column.h"
#include "nimble/types/array_view.h"

namespace nimble {

// Number of rows per block. The scratch arrays and the written keys of a block
// fit in the cache.
inline constexpr size_t kKeyBlock = 1024;

// A key column bound to arrays, for rows of a root array. Borrows both
// arguments of bind(). Not thread-safe.
class KeyColumnInput {
 public:
  // Finds the leaf below `root`. Fails unless it has the type of `column`.
  static Result<KeyColumnInput> bind(const KeyColumn& column,
                                     const ArrayView& root);

  // Loads rows [begin, begin + count) of the root as the current block: finds
  // nulls, resolves dictionary codes, collects byte strings.
  // REQUIRES: count <= kKeyBlock.
  Status load_block(int64_t begin, size_t count);

  // kBytes: adds the sizes of the block's values and terminators to `sizes`.
  void add_sizes(uint64_t* sizes) const;
  // Writes marker and value of row i to out + i * stride.
  void write_strided(uint8_t* out, size_t stride) const;
  // Writes marker and value of row i to out + at[i], and advances at[i].
  void write_at(uint8_t* out, uint64_t* at) const;

 private:
  struct Node {
    const ArrayView* view;
    int64_t shift;  // root row r is row r + shift of the view
  };
  Status resolve_codes(int64_t begin);
  void find_nulls(int64_t begin);
  void collect_bytes();
  template <class Cursor>
  void write(Cursor cursor) const;
  template <class U, bool kFloat, class Cursor>
  void write_numbers(Cursor cursor) const;
  template <class Cursor>
  void write_bools(Cursor cursor) const;
  template <class Cursor>
  void write_opaque(Cursor cursor) const;
  void write_bytes(uint8_t* out, uint64_t* at) const;

  int64_t row_of(size_t i) const {
    return has_codes_ ? rows_[i] : first_ + static_cast<int64_t>(i);
  }
  bool is_null(size_t i) const { return has_nulls_ && valid_[i] == 0; }

  const KeyColumn* column_ = nullptr;
  std::vector<Node> nodes_;  // nodes with a bitmap, root to leaf
  Node leaf_{};
  const ArrayView* values_ = nullptr;  // the leaf, or its dictionary
  bool has_codes_ = false;

  // The current block.
  size_t count_ = 0;
  int64_t first_ = 0;  // first row in values_, without codes
  bool has_nulls_ = false;
  std::vector<uint8_t> valid_;  // 1 or 0 per row, if has_nulls_
  std::vector<int64_t> rows_;   // dictionary rows, if has_codes_
  std::vector<std::string_view> strings_;
  std::vector<uint8_t> escapes_;  // whether the string needs escapes
};

}  // namespace nimble
