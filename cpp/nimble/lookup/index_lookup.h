// IndexLookup: the interface of all indexes of a file, the cluster index and
// secondary indexes. docs/format/indexes.md.
//
//   find_first     the first row with one key, as get() needs it
//   find           the rows with each of many keys, or with values of the first
//                  key columns
//   count          how many rows find() would return
//   find_range     the keys between two bounds, as places in the order of the
//                  index
//   rows_at        the rows at such places
//
// Answers are exact: if an index finds candidates, it compares them with the
// rows' keys.
// Thread-safe. Every method may read the file.
// REQUIRES: unless the file is mapped, the caller does not hold the GIL.
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

// The rows of many keys. Key i has ranges[ends[i - 1], ends[i]), ascending. A
// range may be empty.
struct LookupAnswer {
  std::vector<uint64_t> ends;
  std::vector<RowRange> ranges;
  // The indexes of the keys, sorted by key. Set only if the index has its rows
  // in key order. Each key then has one range, equal keys have equal ranges,
  // and other ranges are disjoint and ascend with the keys.
  std::vector<uint64_t> order;

  // Adds a row to the current key. Adjacent rows become one range.
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

// Half-open positions in the key order of an index. For the cluster index they
// are rows.
using PlaceRange = RowRange;

class IndexLookup {
 public:
  virtual ~IndexLookup() = default;

  // Encodes the index's key columns, in their order.
  virtual const KeyEncoder& encoder() const = 0;
  // Whether the index supports key prefixes, bounds and places.
  virtual bool is_ordered() const = 0;

  // Finds the first row of the file with this whole key. The cost does not
  // depend on how many rows have the key. `wanted` has the columns that the
  // caller will read from the row, or is null. If comparing a row's key needs a
  // round of reads, the wanted columns are read in the same round.
  virtual Result<std::optional<uint64_t>> find_first(
      ByteSpan key, const RowReader* wanted) const = 0;
  // Finds the rows with each of these keys, in the order of `keys`. The keys
  // are whole keys, or the values of the first columns if not `whole`.
  // `wanted`: see find_first().
  virtual Status find(const KeyBuffer& keys, bool whole,
                      const RowReader* wanted, LookupAnswer* out) const = 0;
  // Appends the rows of each key, in the order of `probes`. The ranges of a key
  // are ascending and not empty. Used if several files are searched for the
  // same keys. `whole`, `wanted`: see find().
  virtual Status find_sorted(const ProbeSpan& probes, bool whole,
                             const RowReader* wanted,
                             std::vector<FoundRange>* out) const = 0;
  // Like find(), but the result may include rows of other keys. For callers
  // that compare the rows themselves, or read all of them.
  virtual Status find_candidates(const KeyBuffer& keys, bool whole,
                                 LookupAnswer* out) const {
    return find(keys, whole, nullptr, out);
  }
  // Appends the number of rows of each key.
  virtual Status count(const KeyBuffer& keys, bool whole,
                       std::vector<uint64_t>* out) const = 0;

  // Finds the places of the keys that begin with each of `keys`. An absent key
  // gets an empty range at its position.
  // REQUIRES: is_ordered(), for this function and those below.
  virtual Status find_places(const KeyBuffer& keys,
                             std::vector<PlaceRange>* out) const = 0;
  // Finds the first place whose key is >= each target, or num_rows. Targets may
  // be any bytes.
  virtual Status lower_bounds(const KeyBuffer& targets,
                              std::vector<uint64_t>* out) const = 0;
  // Finds the places of the keys in `range`. `wanted`: see find_first().
  virtual Result<PlaceRange> find_range(const KeyRange& range,
                                        const RowReader* wanted) const = 0;
  // Appends the rows at these places, each range in key order.
  virtual Status rows_at(std::span<const PlaceRange> places,
                         std::vector<uint64_t>* out) const = 0;

  // For verify_file(): checks that rows [first_row, first_row + keys.size())
  // are indexed under `keys`. Returns kCorrupt and names the first row that is
  // not indexed under its key.
  virtual Status check_rows(const KeyBuffer& keys,
                            uint64_t first_row) const = 0;
  // For verify_file(): checks that the index is in order and does not have
  // other entries.
  // REQUIRES: check_rows() succeeded for all rows.
  virtual Status check_order() const = 0;
};

}  // namespace nimble
