#include "nimble/file/range_fetch.h"

#include <algorithm>

namespace nimble {
namespace {

// One request moves at most this much.
constexpr uint64_t kMaxRequest = uint64_t{16} << 20;

// Ascending ranges joined where they are close.
std::vector<ByteRange> join(const std::vector<ByteRange>& ranges,
                            uint64_t gap) {
  std::vector<ByteRange> out;
  for (const ByteRange& r : ranges) {
    if (!out.empty() && r.begin <= out.back().end + gap &&
        r.end - out.back().begin <= kMaxRequest) {
      out.back().end = std::max(out.back().end, r.end);
    } else {
      out.push_back(r);
    }
  }
  return out;
}

}  // namespace

Status fetch_ranges(const FileReader& file, std::vector<ByteRange> ranges,
                    ReadKind kind) {
  std::erase_if(ranges, [&](const ByteRange& r) {
    uint64_t at = 0;
    return file.range_cache()->find(r.begin, r.end - r.begin, &at) != nullptr;
  });
  std::sort(
      ranges.begin(), ranges.end(),
      [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
  const std::vector<ByteRange> joined =
      join(ranges, file.file().coalesce_gap());
  uint64_t size = 0;
  for (const ByteRange& r : joined) size += r.end - r.begin;
  // What the cache cannot keep until it is used is not worth reading.
  if (joined.empty() || size > file.range_cache()->capacity() / 2) {
    return Status::ok();
  }
  std::vector<std::shared_ptr<std::vector<uint8_t>>> buffers;
  std::vector<ReadRequest> reads;
  for (const ByteRange& r : joined) {
    buffers.push_back(std::make_shared<std::vector<uint8_t>>(r.end - r.begin));
    reads.push_back({r.begin, r.end - r.begin, buffers.back()->data()});
  }
  NIMBLE_RETURN_IF_ERROR(file.file().read_many(reads));
  file.stats()->add(kind, reads.size(), size);
  file.stats()->rounds.fetch_add(1, std::memory_order_relaxed);
  for (size_t i = 0; i < joined.size(); ++i) {
    file.range_cache()->put(joined[i].begin, std::move(buffers[i]));
  }
  return Status::ok();
}

}  // namespace nimble
