// KnownRows: among the places of an index, finds rows whose known column is
// within a limit. Never finds a row that is deleted or whose known column is
// null.
// TiedRows: does the same among rows with equal keys.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "nimble/asof/asof_file.h"
#include "nimble/cursor/row_keys.h"
#include "nimble/key/key_buffer.h"

namespace nimble {

// Remembers the least known value of each block of places that it has searched.
// Skips blocks whose values are all above the limit. If many searches pass the
// same rows, the rows are thus read once. May block on reads. Not thread-safe.
class KnownRows {
 public:
  // Borrows `file`. `known` is the path of the known column.
  static Result<KnownRows> open(const AsofFile& file,
                                const std::vector<int>& known);

  // Reads the rows at the given places, for steps_to_match().
  Status read(std::span<const PlaceRange> places);
  // Looks at `n` rows of the last read(), from number `first` on. Returns how
  // many rows do not match before the first row that does, counted from the end
  // if `from_end`. Returns n if no row matches.
  uint64_t steps_to_match(size_t first, uint64_t n, bool from_end,
                          ByteSpan limit) const;
  // The last matching place of `places` if `from_end`, otherwise the first;
  // kNoRow if none matches.
  Result<uint64_t> nearest(PlaceRange places, bool from_end, ByteSpan limit);

 private:
  // The least known value of the rows of a block, or of several blocks. Empty
  // if the rows cannot match.
  struct Least {
    std::string value;
    uint32_t num_blocks = 0;

    bool is_within(ByteSpan limit) const;
    void extend(ByteSpan other);
  };

  explicit KnownRows(const AsofFile& file) : file_(file) {}
  PlaceRange block(uint64_t number) const;
  // Reads a block, unless it is the block that was read last.
  Status read_block(uint64_t number);
  // Whether a block may contain a match. Reads the block the first time.
  Result<bool> may_match(uint64_t number, ByteSpan limit);

  const AsofFile& file_;
  std::unique_ptr<const RowKeys> values_;
  // The rows of the last read() and their known values.
  std::vector<uint64_t> rows_;
  KeyBuffer keys_;
  uint64_t block_read_ = kNoRow;
  std::unordered_map<uint64_t, Least> blocks_, groups_;
};

// Among rows with equal keys, finds the row that is first or last in the file.
// Used for an index that orders such rows differently. May block on reads. Not
// thread-safe.
class TiedRows {
 public:
  // Borrows `file`. If `takes_last`, the last row of the file wins, else the
  // first.
  static Result<TiedRows> open(const AsofFile& file,
                               const std::optional<std::vector<int>>& known,
                               bool takes_last);

  // Reads the rows at these places, unless the previous call read them.
  Status read(PlaceRange places);
  // The row that wins, or kNoRow.
  // REQUIRES: read().
  uint64_t row() const { return best_.empty() ? kNoRow : best_.back(); }
  // Returns the row that wins among the rows whose known value is within a
  // limit.
  // REQUIRES: read() was called, and there is a known column.
  uint64_t row_within(ByteSpan limit) const;

 private:
  TiedRows(const AsofFile& file, bool takes_last)
      : file_(file), takes_last_(takes_last) {}

  const AsofFile& file_;
  const bool takes_last_;
  std::unique_ptr<const RowKeys> values_;  // null: there is no known column
  PlaceRange places_;
  // Live rows in the order of their known values. keys_ has the values.
  // best_[i] is the row that wins among rows 0 to i. Without a known column,
  // best_ has only the row that wins among all.
  KeyBuffer keys_;
  std::vector<uint64_t> order_, best_;
};

}  // namespace nimble
