// AsofFinder: finds the nearest row at or before, or at or after, each of many
// keys in one file. A key has values of the first columns of an index. A row
// must equal the key in all of these columns but the last, `on`, by which the
// nearest row is chosen. Rows with a null in `on` are never found.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nimble/asof/asof_file.h"
#include "nimble/key/key_buffer.h"

namespace nimble {

// Keys to search. Borrows all.
struct AsofKeys {
  const KeyBuffer* keys = nullptr;
  // For each key, the bytes that it shares with every row it may find: its
  // equal columns, and the marker of a value that is not null.
  const KeyBuffer* groups = nullptr;
  // Whether rows that equal the key are excluded, for each key.
  std::span<const uint8_t> exclusive;
  // The encoded upper limit of the known column, for each key. Null if all rows
  // are known.
  const KeyBuffer* limits = nullptr;
};

// The part of an encoded key that AsofKeys::groups has.
// REQUIRES: the encoder made `key`, and its last column is not null.
size_t group_size(const KeyEncoder& encoder, ByteSpan key);

// May block on reads. Not thread-safe.
class AsofFinder {
 public:
  // Keys have `num_columns` columns. `backward`: finds the greatest value at or
  // below the key's; else the least value at or above it. Rows with a value in
  // `known` that is null or above a key's limit are not found.
  // REQUIRES: the index is ordered and has so many columns.
  AsofFinder(const AsofFile& file, size_t num_columns, bool backward,
             std::optional<std::vector<int>> known = std::nullopt);

  // The row of one key; nullopt if no row matches. `group`: see AsofKeys.
  // Unless `on` is null, sets *on to the encoded value of the row.
  Result<std::optional<uint64_t>> find_one(ByteSpan key, ByteSpan group,
                                           bool exclusive,
                                           std::string* on) const;
  // Replaces *rows by the row of each key, or kNoRow. Among rows with equal
  // columns, takes the last of the file if `backward`, else the first. Unless
  // `on` is null, replaces *on by the encoded value of each row, or nothing.
  Status find(const AsofKeys& keys, std::vector<uint64_t>* rows,
              std::vector<std::string>* on) const;

 private:
  // Places of an index that may match one key.
  struct Candidates {
    uint64_t key = 0;
    PlaceRange places;
  };
  class LivePlaces;

  // Whether the nearest of some places is the last one.
  bool is_nearest_last() const { return backward_ != descending_; }
  // Whether the rows at places of equal keys ascend.
  bool rows_ascend() const;
  // Whether the nearest place has the right row among rows with equal keys.
  bool takes_right_row() const {
    return is_nearest_last() == backward_ && rows_ascend();
  }
  // Like all_places(), for one key. Searches only one end unless steps().
  Result<PlaceRange> places_of_one(ByteSpan key, ByteSpan group,
                                   bool exclusive) const;
  // Finds the places that may match each key. They are all in the key's group
  // if steps(). Otherwise only the nearest counts, which may be in another one.
  Status all_places(const AsofKeys& keys, std::vector<PlaceRange>* out) const;
  // Finds the matching place of each key that is nearest to the end of its
  // places, or to their beginning unless `from_end`; kNoRow without a match.
  Status nearest(const std::vector<Candidates>& candidates, bool from_end,
                 const KeyBuffer* limits, std::vector<uint64_t>* places) const;
  Status nearest_known(std::vector<Candidates> candidates, bool from_end,
                       const KeyBuffer& limits,
                       std::vector<uint64_t>* places) const;
  // Replaces the rows of some keys by the right ones among rows with equal
  // columns. `equal` has the encoded columns of these rows.
  Status settle_ties(std::span<const uint64_t> keys, const KeyBuffer& equal,
                     const KeyBuffer* limits,
                     std::vector<uint64_t>* rows) const;
  // Replaces places that are not kNoRow by the rows at these places.
  Status to_rows(std::vector<uint64_t>* places) const;
  bool steps() const { return file_.deleted != nullptr || known_; }
  Result<std::unique_ptr<const RowKeys>> open_row_keys() const;
  // Returns whether a row is in a group. If so, sets *on to its encoded value,
  // unless `on` is null.
  Result<bool> read_on(uint64_t row, ByteSpan group, std::string* on) const;
  Status rows_at(std::span<const PlaceRange> places,
                 std::vector<uint64_t>* out) const;

  const AsofFile file_;
  const size_t num_columns_;
  const bool backward_, descending_;
  const std::optional<std::vector<int>> known_;
};

}  // namespace nimble
