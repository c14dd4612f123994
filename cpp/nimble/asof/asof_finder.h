// AsofFinder: finds the nearest row at or before, or at or after, each of many
// keys in one file. A key has values for the first columns of an index. A row
// must equal the key in all of these columns except the last one, `on`. Of
// these rows, the one with the nearest value of `on` wins. Rows with a null in
// `on` are never found.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nimble/asof/asof_file.h"
#include "nimble/key/key_buffer.h"

namespace nimble {

// Keys to search for. Borrows its members.
struct AsofKeys {
  const KeyBuffer* keys = nullptr;
  // For each key, the prefix that it shares with every row that it may match:
  // the values of the equal columns, and the marker of a value that is not
  // null.
  const KeyBuffer* groups = nullptr;
  // For each key, whether rows that equal the key are excluded.
  std::span<const uint8_t> exclusive;
  // For each key, the encoded upper limit of the known column. Null if all rows
  // are known.
  const KeyBuffer* limits = nullptr;
};

// Returns the size of the prefix of an encoded key that AsofKeys::groups
// contains.
// REQUIRES: the encoder made `key`, and its last column is not null.
size_t group_size(const KeyEncoder& encoder, ByteSpan key);

// May block on reads. Not thread-safe.
class AsofFinder {
 public:
  // Keys have `num_columns` columns. If `backward`, finds the greatest value at
  // or below the key's value, else the least value at or above it. Rows whose
  // value in `known` is null or above the key's limit are not found.
  // REQUIRES: the index is ordered and has at least `num_columns` columns.
  AsofFinder(const AsofFile& file, size_t num_columns, bool backward,
             std::optional<std::vector<int>> known = std::nullopt);

  // Returns the row of one key, or nullopt if no row matches. `group`: see
  // AsofKeys. Unless `on` is null, sets *on to the row's encoded value of `on`.
  Result<std::optional<uint64_t>> find_one(ByteSpan key, ByteSpan group,
                                           bool exclusive,
                                           std::string* on) const;
  // Replaces *rows by the row of each key, or kNoRow. Among rows with equal
  // columns, takes the last row of the file if `backward`, else the first.
  // Unless `on` is null, replaces *on by each row's encoded value of the
  // ordered column. The value is empty if there is no row.
  Status find(const AsofKeys& keys, std::vector<uint64_t>* rows,
              std::vector<std::string>* on) const;

 private:
  // Places of an index that may match one key.
  struct Candidates {
    uint64_t key = 0;
    PlaceRange places;
  };
  class LivePlaces;

  // Whether the last of several matching places is the nearest.
  bool is_nearest_last() const { return backward_ != descending_; }
  // Whether the rows at places of equal keys ascend.
  bool rows_ascend() const;
  // Whether, among rows with equal keys, the nearest place has the row that
  // find() must return.
  bool takes_right_row() const {
    return is_nearest_last() == backward_ && rows_ascend();
  }
  // Like all_places(), for one key. Unless steps(), searches only one end of
  // the places.
  Result<PlaceRange> places_of_one(ByteSpan key, ByteSpan group,
                                   bool exclusive) const;
  // Finds the places that may match each key. If steps(), they are all in the
  // key's group. Otherwise only the nearest place is used, and it may be in
  // another group.
  Status all_places(const AsofKeys& keys, std::vector<PlaceRange>* out) const;
  // For each key, finds the last matching place of its places if `from_end`,
  // otherwise the first. Stores kNoRow if no place matches.
  Status nearest(const std::vector<Candidates>& candidates, bool from_end,
                 const KeyBuffer* limits, std::vector<uint64_t>* places) const;
  Status nearest_known(std::vector<Candidates> candidates, bool from_end,
                       const KeyBuffer& limits,
                       std::vector<uint64_t>* places) const;
  // Corrects the rows of `keys` that have rows with equal columns, so that the
  // first or last of these wins. `equal` has the encoded columns of these rows.
  Status settle_ties(std::span<const uint64_t> keys, const KeyBuffer& equal,
                     const KeyBuffer* limits,
                     std::vector<uint64_t>* rows) const;
  // Replaces places that are not kNoRow by the rows at these places.
  Status to_rows(std::vector<uint64_t>* places) const;
  bool steps() const { return file_.deleted != nullptr || known_; }
  Result<std::unique_ptr<const RowKeys>> open_row_keys() const;
  // Returns whether a row is in a group. If it is, and `on` is not null, sets
  // *on to the row's encoded value of `on`.
  Result<bool> read_on(uint64_t row, ByteSpan group, std::string* on) const;
  Status rows_at(std::span<const PlaceRange> places,
                 std::vector<uint64_t>* out) const;

  const AsofFile file_;
  const size_t num_columns_;
  const bool backward_, descending_;
  const std::optional<std::vector<int>> known_;
};

}  // namespace nimble
