// KnownRows: finds rows whose known column is within a limit, among the places
// of an index. A row that is deleted, or that has a null there, is never found.
// TiedRows: the same among rows with equal keys.
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

// Remembers the least known value of each block of places that it has searched,
// and skips blocks that are wholly above a limit. Many searches that pass the
// same rows thus read them once. May block on reads. Not thread-safe.
class KnownRows {
 public:
  // Borrows `file`. `known` is the path of the known column.
  static Result<KnownRows> open(const AsofFile& file,
                                const std::vector<int>& known);

  // Reads the rows at some places, for steps_to_match().
  Status read(std::span<const PlaceRange> places);
  // Among `n` rows of the last read() from number `first` on: the number of
  // rows that do not match before the first that does, counted from the end if
  // `from_end`. Returns n if no row matches.
  uint64_t steps_to_match(size_t first, uint64_t n, bool from_end,
                          ByteSpan limit) const;
  // The last matching place of `places` if `from_end`, otherwise the first;
  // kNoRow if none matches.
  Result<uint64_t> nearest(PlaceRange places, bool from_end, ByteSpan limit);

 private:
  // The least known value of the rows of a block, or of several blocks. Empty
  // if none of the rows can match.
  struct Least {
    std::string value;
    uint32_t num_blocks = 0;

    bool is_within(ByteSpan limit) const;
    void extend(ByteSpan other);
  };

  explicit KnownRows(const AsofFile& file) : file_(file) {}
  PlaceRange block(uint64_t number) const;
  // Reads a block, unless it was the last one.
  Status read_block(uint64_t number);
  // Whether a block may have a match. Reads it the first time.
  Result<bool> may_match(uint64_t number, ByteSpan limit);

  const AsofFile& file_;
  std::unique_ptr<const RowKeys> values_;
  // Of the last read().
  std::vector<uint64_t> rows_;
  KeyBuffer keys_;
  uint64_t block_read_ = kNoRow;
  std::unordered_map<uint64_t, Least> blocks_, groups_;
};

// The first or last row of the file among rows with equal keys, in an index
// whose ties are in another order. May block on reads. Not thread-safe.
class TiedRows {
 public:
  // Borrows `file`. `takes_last`: the last row of the file wins.
  static Result<TiedRows> open(const AsofFile& file,
                               const std::optional<std::vector<int>>& known,
                               bool takes_last);

  // Reads the rows at these places, unless they were the last ones.
  Status read(PlaceRange places);
  // The row that wins, or kNoRow.
  // REQUIRES: read().
  uint64_t row() const { return best_.empty() ? kNoRow : best_.back(); }
  // The row that wins among those whose known value is within a limit.
  // REQUIRES: read(); there is a known column.
  uint64_t row_within(ByteSpan limit) const;

 private:
  TiedRows(const AsofFile& file, bool takes_last)
      : file_(file), takes_last_(takes_last) {}

  const AsofFile& file_;
  const bool takes_last_;
  std::unique_ptr<const RowKeys> values_;  // null: there is no known column
  PlaceRange places_;
  // Live rows in the order of their known values: the values, and the row that
  // wins among a row and those before it. Without a known column, only that of
  // all rows.
  KeyBuffer keys_;
  std::vector<uint64_t> order_, best_;
};

}  // namespace nimble
