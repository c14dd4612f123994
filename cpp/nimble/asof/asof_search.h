// AsofSearch: finds the nearest row at or before, or at or after, each of many
// keys in any number of files. Keys are encoded and sorted once. Each file is
// searched once, for the keys that may have a nearer row in it.
#pragma once

#include <string>

#include "nimble/asof/asof_finder.h"

namespace nimble {

// What is known about the keys of a file. An empty span means "unknown".
struct AsofBounds {
  // The first and the last key. They may have more columns than the keys of the
  // search.
  ByteSpan lower, upper;
  // The first and the last encoded value of `on`, in the order of the index.
  ByteSpan first_on, last_on;
};

// May block on reads. Not thread-safe.
class AsofSearch {
 public:
  // The row of a key. `file` is negative if no row matches.
  struct Match {
    int64_t file = -1;
    uint64_t row = 0;
    std::string on;  // encoded; empty if only one file is searched
  };

  // Borrows the keys. `encoder` made them, and they do not contain nulls.
  // `exclusive` and `limits` have an element for each key: see AsofKeys.
  // `backward`: see AsofFinder.
  AsofSearch(const KeyEncoder& encoder, const KeyBuffer& keys,
             std::vector<uint8_t> exclusive, const KeyBuffer* limits,
             bool backward);

  // Returns the keys that may have a nearer row in a file with these bounds, in
  // ascending order of the keys.
  std::vector<uint64_t> wanted(const AsofBounds& bounds) const;
  // Searches a file for the given keys. `known`: see AsofFinder. `is_only`: no
  // other file is searched for these keys.
  Status search(int64_t number, const AsofFile& file,
                const std::optional<std::vector<int>>& known,
                std::span<const uint64_t> keys, bool is_only);
  // Offers a row of a file as the match of a key. The row is taken if it is
  // nearer than the current match. `on` is its encoded value.
  void offer(uint64_t key, int64_t file, uint64_t row, ByteSpan on);

  const std::vector<Match>& matches() const { return matches_; }

 private:
  ByteSpan group(uint64_t key) const {
    return keys_.key(key).first(group_sizes_[key]);
  }
  ByteSpan on(uint64_t key) const {
    return keys_.key(key).subspan(group_sizes_[key] - 1);
  }
  // Whether the nearest row of a key is the last of its rows in the order of
  // the index.
  bool is_nearest_last() const { return backward_ != descending_; }
  bool may_improve(uint64_t key, const AsofBounds& bounds) const;

  const KeyBuffer& keys_;
  const KeyBuffer* limits_;
  const size_t num_columns_;
  const bool backward_, descending_;
  std::vector<uint8_t> exclusive_;
  std::vector<size_t> group_sizes_;
  std::vector<uint64_t> order_;  // keys, ascending
  std::vector<Match> matches_;
};

}  // namespace nimble
