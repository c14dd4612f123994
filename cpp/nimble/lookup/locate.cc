#include "nimble/lookup/locate.h"

namespace nimble {
namespace {

// What one file says of one key.
struct Hit {
  uint64_t rank;
  int64_t file;
  RowRange rows;
};

// The hits, which ascend by file, in the order of the keys.
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
  std::vector<FoundRange> found;
  for (const FileProbes& f : files) {
    if (f.probes.numbers.empty()) continue;
    found.clear();
    NIMBLE_RETURN_IF_ERROR(
        f.index->find_sorted(f.probes, f.whole, nullptr, &found));
    for (const FoundRange& r : found) {
      hits.push_back({probes.rank(r.number), f.file, r.rows});
    }
  }
  return in_key_order(probes, hits);
}

}  // namespace nimble
