#include "nimble/open/joined_reads.h"

#include <algorithm>

namespace nimble {
namespace {

// Maximum size of a request, unless a single range is larger.
constexpr uint64_t kMaxRequest = uint64_t{16} << 20;

}  // namespace

std::vector<JoinedRead> join_ranges(std::span<const ByteRange> ascending,
                                    uint64_t gap) {
  std::vector<JoinedRead> out;
  for (size_t i = 0; i < ascending.size(); ++i) {
    const ByteRange& r = ascending[i];
    if (!out.empty()) {
      JoinedRead& last = out.back();
      const uint64_t end = std::max(last.end, r.end);
      const bool near = r.begin <= last.end || r.begin - last.end <= gap;
      if (near && end - last.begin <= kMaxRequest) {
        last.end = end;
        last.last = i + 1;
        continue;
      }
    }
    out.push_back({r.begin, r.end, i, i + 1, nullptr});
  }
  return out;
}

uint64_t total_size(const std::vector<JoinedRead>& reads) {
  uint64_t size = 0;
  for (const JoinedRead& r : reads) size += r.size();
  return size;
}

Status read_joined(const ReadableFile& file, ReadStats* stats, ReadKind kind,
                   std::vector<JoinedRead>* reads) {
  if (reads->empty()) return Status::ok();
  std::vector<ReadRequest> requests;
  for (JoinedRead& r : *reads) {
    r.bytes = std::make_shared<std::vector<uint8_t>>(r.size());
    requests.push_back({r.begin, r.size(), r.bytes->data()});
  }
  NIMBLE_RETURN_IF_ERROR(file.read_many(requests));
  stats->add(kind, requests.size(), total_size(*reads));
  stats->rounds.fetch_add(1, std::memory_order_relaxed);
  return Status::ok();
}

}  // namespace nimble
