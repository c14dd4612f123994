#include "nimble/open/range_fetch.h"

#include <algorithm>

#include "nimble/open/joined_reads.h"

namespace nimble {

Status fetch_ranges(const OpenFile& file, std::vector<ByteRange> ranges,
                    ReadKind kind) {
  RangeCache* const cache = file.range_cache();
  std::erase_if(ranges, [&](const ByteRange& r) {
    uint64_t at = 0;
    return cache->find(r.begin, r.end - r.begin, &at) != nullptr;
  });
  std::sort(
      ranges.begin(), ranges.end(),
      [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
  std::vector<JoinedRead> reads =
      join_ranges(ranges, file.file().coalesce_gap());
  // Does not read bytes that the cache would drop before they are used.
  if (total_size(reads) > cache->capacity() / 2) return Status::ok();
  NIMBLE_RETURN_IF_ERROR(read_joined(file.file(), file.stats(), kind, &reads));
  for (JoinedRead& r : reads) cache->put(r.begin, std::move(r.bytes));
  return Status::ok();
}

}  // namespace nimble
