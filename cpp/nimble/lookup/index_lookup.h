// IndexLookup: what every index of a file can be asked, one interface for the
// cluster index and for secondary ones. docs/format/indexes.md.
//
//   point lookup   whole keys, or the values of the first key columns, in
//                  batches: rows of each request, ascending
//   range scan     keys between two bounds: places in key order, and the
//                  rows at them
//
// Answers are exact: an index that finds candidates only settles them itself.
// Any number of threads may use one.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "nimble/base/row_range.h"
#include "nimble/key/key_bounds.h"
#include "nimble/reader/file_reader.h"

namespace nimble {

// Rows of many requests: those of request i are ranges[ends[i - 1], ends[i]).
struct LookupAnswer {
  std::vector<uint64_t> ends;
  std::vector<RowRange> ranges;

  // Rows of the request that is being answered; neighbours become one range.
  void add(uint64_t row) {
    const uint64_t begin = ends.empty() ? 0 : ends.back();
    if (ranges.size() > begin && ranges.back().end == row) {
      ++ranges.back().end;
    } else {
      ranges.push_back({row, row + 1});
    }
  }
  void finish_request() { ends.push_back(ranges.size()); }
};

// Half-open positions in the order of an index's keys.
using PlaceRange = RowRange;

class IndexLookup {
 public:
  virtual ~IndexLookup() = default;

  // Of the index's key columns, in their order.
  virtual const KeyEncoder& encoder() const = 0;
  // Of what it has loaded and keeps; grows as it is asked.
  virtual uint64_t memory_bytes() const = 0;
  // Are leading columns of a key enough, and are there bounds and places?
  virtual bool is_ordered() const = 0;

  // Rows with each of these keys, in the order of `keys`. They are whole keys,
  // or the values of the first columns where not `whole`.
  virtual Status find_keys(const KeyBuffer& keys, bool whole,
                           LookupAnswer* out) const = 0;
  // The same, but rows of other keys may be among them: for a caller that
  // compares the rows itself, or reads them all anyway.
  virtual Status find_candidates(const KeyBuffer& keys, bool whole,
                                 LookupAnswer* out) const {
    return find_keys(keys, whole, out);
  }
  // How many rows each key has.
  virtual Status count_keys(const KeyBuffer& keys, bool whole,
                            std::vector<uint64_t>* out) const = 0;

  // Only where is_ordered(): the places of each key, and of a range.
  virtual Status find_places(const KeyBuffer& keys, bool whole,
                             std::vector<PlaceRange>* out) const = 0;
  virtual Result<PlaceRange> find_range(const KeyRange& range) const = 0;
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

// The cluster index of a file that has one.
std::unique_ptr<const IndexLookup> open_cluster_lookup(const FileReader& file);
// Secondary index i of the footer: reads its root. FileReader::index() keeps
// what this opens.
Result<std::unique_ptr<const IndexLookup>> open_secondary_lookup(
    const FileReader& file, size_t i);

}  // namespace nimble
