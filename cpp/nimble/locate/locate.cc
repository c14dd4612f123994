#include "nimble/locate/locate.h"

namespace nimble {
namespace {

// The rows of one key in one file.
struct Hit {
  uint64_t rank;
  int64_t file;
  RowRange rows;
};

// Sorts hits by key.
// REQUIRES: `hits` are ascending by file.
LocatedRows in_key_order(const KeyProbes& probes,
                         const std::vector<Hit>& hits) {
  std::vector<uint64_t> ends(probes.num_distinct() + 1);
  for (const Hit& hit : hits) ++ends[hit.rank + 1];
  for (size_t i = 1; i < ends.size(); ++i) ends[i] += ends[i - 1];
  std::vector<uint64_t> next(ends.begin(), ends.end() - 1), order(hits.size());
  for (size_t i = 0; i < hits.size(); ++i) order[next[hits[i].rank]++] = i;
  LocatedRows out;
  out.keys.reserve(hits.size());
  out.files.reserve(hits.size());
  out.ranges.reserve(hits.size());
  for (size_t key = 0; key < probes.keys().size(); ++key) {
    const uint64_t rank = probes.rank(key);
    for (uint64_t i = ends[rank]; i < ends[rank + 1]; ++i) {
      const Hit& hit = hits[order[i]];
      out.keys.push_back(key);
      out.files.push_back(hit.file);
      out.ranges.push_back(hit.rows);
    }
  }
  return out;
}

}  // namespace

Result<LocatedRows> locate(const KeyProbes& probes,
                           std::span<const FileProbes> files) {
  std::vector<Hit> hits;
  std::vector<FoundRange> ranges;
  std::vector<RowRange> live;
  for (const FileProbes& f : files) {
    if (f.probes.numbers.empty()) continue;
    ranges.clear();
    NIMBLE_RETURN_IF_ERROR(
        f.index->find_sorted(f.probes, f.whole, nullptr, &ranges));
    for (const FoundRange& r : ranges) {
      const uint64_t rank = probes.rank(r.number);
      if (f.deleted == nullptr) {
        hits.push_back({rank, f.file, r.rows});
        continue;
      }
      live.clear();
      f.deleted->append_absent(r.rows, &live);
      for (const RowRange& rows : live) hits.push_back({rank, f.file, rows});
    }
  }
  return in_key_order(probes, hits);
}

Result<std::optional<uint64_t>> find_first_live(const IndexLookup& index,
                                                ByteSpan key,
                                                const RowReader* wanted,
                                                const RowBitmap& deleted) {
  NIMBLE_ASSIGN_OR_RETURN(const std::optional<uint64_t> first,
                          index.find_first(key, wanted));
  if (!first || !deleted.contains(*first)) return first;
  KeyBuffer keys;
  keys.push_back(key);
  LookupAnswer all;
  NIMBLE_RETURN_IF_ERROR(index.find(keys, true, wanted, &all));
  std::vector<RowRange> live;
  for (const RowRange& rows : all.ranges) {
    deleted.append_absent(rows, &live);
    if (!live.empty()) return std::optional<uint64_t>(live.front().begin);
  }
  return std::optional<uint64_t>();
}

}  // namespace nimble
