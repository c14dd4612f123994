// IndexLookup: what every index of a file can be asked, one interface for the
// cluster index and for secondary ones. docs/format/indexes.md.
//
//   find_first     the first row with one key: what get() asks
//   find           the rows with each of many keys, or of values of the first
//                  key columns; count() says only how many
//   find_range     keys between two bounds: places in the order of the index,
//                  and rows_at() the rows at them
//
// Answers are exact: an index that finds candidates only settles them itself.
// Any number of threads may use one. Every method may read the file, so none
// may be called with the GIL held unless the file is mapped.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "nimble/base/row_range.h"
#include "nimble/key/key_bounds.h"
#include "nimble/key/key_encoder.h"
#include "nimble/lookup/key_probes.h"

namespace nimble {

class RowReader;  // row_reader.h

// Rows of many keys: those of key i are ranges[ends[i - 1], ends[i]),
// ascending; a range may be empty.
struct LookupAnswer {
  std::vector<uint64_t> ends;
  std::vector<RowRange> ranges;
  // The keys in their own order, if the index has its rows in this order, too:
  // each key then has one range, ranges of equal keys are equal, and others
  // are disjoint and ascend with the keys. Empty where that is not so.
  std::vector<uint64_t> order;

  // Adds a row of the key that is being answered; neighbours become one range.
  void add(uint64_t row) {
    const uint64_t begin = ends.empty() ? 0 : ends.back();
    if (ranges.size() > begin && ranges.back().end == row) {
      ++ranges.back().end;
    } else {
      ranges.push_back({row, row + 1});
    }
  }
  void finish_key() { ends.push_back(ranges.size()); }
};

// Half-open positions in the order of an index's keys. For the cluster index
// they are rows.
using PlaceRange = RowRange;

class IndexLookup {
 public:
  virtual ~IndexLookup() = default;

  // Of the index's key columns, in their order.
  virtual const KeyEncoder& encoder() const = 0;
  // Are leading columns of a key enough, and are there bounds and places?
  virtual bool is_ordered() const = 0;

  // The first row of the file with this whole key. Costs the same however many
  // rows have the key. `wanted`: columns that the caller is about to read of
  // the row; where reading a row to compare its key costs a round of reads,
  // they come with it. Null: none.
  virtual Result<std::optional<uint64_t>> find_first(
      ByteSpan key, const RowReader* wanted) const = 0;
  // The rows with each of these keys, in the order of `keys`. They are whole
  // keys, or the values of the first columns where not `whole`. `wanted` as
  // for find_first().
  virtual Status find(const KeyBuffer& keys, bool whole,
                      const RowReader* wanted, LookupAnswer* out) const = 0;
  // Appends the rows with each of these keys, key by key in their order; of one
  // key, ranges that ascend and are not empty. For keys that more than one file
  // is asked for; `whole` and `wanted` as for find().
  virtual Status find_sorted(const ProbeSpan& probes, bool whole,
                             const RowReader* wanted,
                             std::vector<FoundRange>* out) const = 0;
  // As find(), but rows of other keys may be among them: for a caller that
  // compares the rows itself, or reads them all anyway.
  virtual Status find_candidates(const KeyBuffer& keys, bool whole,
                                 LookupAnswer* out) const {
    return find(keys, whole, nullptr, out);
  }
  // Appends how many rows each key has.
  virtual Status count(const KeyBuffer& keys, bool whole,
                       std::vector<uint64_t>* out) const = 0;

  // The rest only where is_ordered(). The places of keys that begin with each
  // of these; an absent one has the empty range of its place.
  virtual Status find_places(const KeyBuffer& keys,
                             std::vector<PlaceRange>* out) const = 0;
  // `wanted` as for find_first().
  virtual Result<PlaceRange> find_range(const KeyRange& range,
                                        const RowReader* wanted) const = 0;
  // Appends the rows at these places, each range in key order.
  virtual Status rows_at(std::span<const PlaceRange> places,
                         std::vector<uint64_t>* out) const = 0;

  // For verify_file(): does the index have rows [first_row, ...) under these
  // keys of theirs? kCorrupt, naming the row, where it does not.
  virtual Status check_rows(const KeyBuffer& keys,
                            uint64_t first_row) const = 0;
  // The rest: with all rows there, is nothing else, and all in order?
  virtual Status check_order() const = 0;
};

}  // namespace nimble
