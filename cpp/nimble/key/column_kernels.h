// Kernels of the key encoder: one column of one block of rows into key bytes.
#pragma once

#include <vector>

#include "nimble/key/key_column.h"
#include "nimble/types/array_view.h"

namespace nimble {

// Blocks keep the scratch arrays and the keys being written in cache.
inline constexpr size_t kKeyBlock = 1024;

// A key column bound to arrays: where its values are for the rows of a root.
class KeyColumnInput {
 public:
  // Finds the leaf below `root` and checks that it holds what `column` says.
  static Result<KeyColumnInput> bind(const KeyColumn& column,
                                     const ArrayView& root);

  // Makes rows [begin, begin + count) of the root, at most kKeyBlock, the
  // current block: finds nulls, resolves codes, collects byte strings.
  Status load_block(int64_t begin, size_t count);

  // kBytes: adds the sizes of the values and terminators of the block.
  void add_sizes(uint64_t* sizes) const;
  // Writes marker and value of every row at out + i * stride.
  void write_strided(uint8_t* out, size_t stride) const;
  // Writes at out + at[i] and moves at[i] past what was written.
  void write_at(uint8_t* out, uint64_t* at) const;

 private:
  struct Node {
    const ArrayView* view;
    int64_t shift;  // row r of the root is row r + shift of the view
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
  std::vector<Node> nodes_;  // those with a bitmap, root to leaf
  Node leaf_{};
  const ArrayView* values_ = nullptr;  // the leaf or its dictionary
  bool has_codes_ = false;

  // The current block.
  size_t count_ = 0;
  int64_t first_ = 0;  // row of values_ of the block's first, without codes
  bool has_nulls_ = false;
  std::vector<uint8_t> valid_;  // 1 or 0 a row, if has_nulls_
  std::vector<int64_t> rows_;   // rows of the dictionary, if has_codes_
  std::vector<std::string_view> strings_;
  std::vector<uint8_t> escapes_;  // does the string need any
};

}  // namespace nimble
