#include "nimble/file/fetched_bodies.h"

#include <algorithm>
#include <cstring>

namespace nimble {
namespace {

// One request moves at most this much.
constexpr uint64_t kMaxRequest = uint64_t{16} << 20;

// Adds a range that is not empty to ascending ranges, joined where they touch;
// false if all of it is there already. Mostly it goes to the end.
bool add_range(const ByteRange& range, std::vector<ByteRange>* ranges) {
  const auto before = [](const ByteRange& r, uint64_t at) {
    return r.end < at;
  };
  const auto first =
      std::lower_bound(ranges->begin(), ranges->end(), range.begin, before);
  auto last = first;
  ByteRange all = range;
  for (; last != ranges->end() && last->begin <= range.end; ++last) {
    if (last->begin <= range.begin && range.end <= last->end) return false;
    all.begin = std::min(all.begin, last->begin);
    all.end = std::max(all.end, last->end);
  }
  ranges->insert(ranges->erase(first, last), all);
  return true;
}

}  // namespace

bool FetchedBodies::before(const Wanted& a, const Wanted& b) {
  return a.begin < b.begin;
}

FetchedBodies::Buffer& FetchedBodies::buffer_of(const SegmentRef& segment) {
  Buffer& b = buffers_[{segment.offset, segment.size}];
  // Kernels may look a few bytes past the end.
  if (b.bytes == nullptr) {
    b.bytes = arena_.allocate(segment.size + AlignedBuffer::kSlack);
  }
  return b;
}

void FetchedBodies::want(const SegmentRef& segment, const Decoder& decoder,
                         uint32_t begin, uint32_t end) {
  ranges_.clear();
  decoder.append_ranges(begin, end, &ranges_);
  if (ranges_.empty()) return;
  Buffer& buffer = buffer_of(segment);
  for (const ByteRange& r : ranges_) {
    if (r.begin >= r.end || !add_range(r, &buffer.filled)) continue;
    wanted_.push_back({segment.offset + r.begin, segment.offset + r.end,
                       buffer.bytes + r.begin});
    most_bytes_ += r.end - r.begin + file_.coalesce_gap();
  }
}

SegmentBody FetchedBodies::body(const SegmentRef& segment) const {
  const auto it = buffers_.find({segment.offset, segment.size});
  SegmentBody out;
  out.size = segment.size;
  out.data = it == buffers_.end() ? nullptr : it->second.bytes;
  return out;
}

std::vector<FetchedBodies::Request> FetchedBodies::join(
    const std::vector<Wanted>& wanted) const {
  std::vector<Request> requests;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Wanted& w = wanted[i];
    if (!requests.empty()) {
      Request& r = requests.back();
      const uint64_t end = std::max(r.end, w.end);
      if (w.begin <= r.end + file_.coalesce_gap() &&
          end - r.begin <= kMaxRequest) {
        r.end = end;
        continue;
      }
    }
    requests.push_back({w.begin, w.end, i});
  }
  return requests;
}

void FetchedBodies::count(uint64_t* reads, uint64_t* bytes) {
  std::sort(wanted_.begin(), wanted_.end(), before);
  *reads = *bytes = 0;
  for (const Request& r : join(wanted_)) {
    ++*reads;
    *bytes += r.end - r.begin;
  }
}

Status FetchedBodies::fetch() {
  std::sort(wanted_.begin(), wanted_.end(), before);
  std::vector<Wanted> misses;
  for (const Wanted& w : wanted_) {
    uint64_t begin = 0;
    if (const auto bytes = cache_->find(w.begin, w.end - w.begin, &begin)) {
      std::memcpy(w.to, bytes->data() + (w.begin - begin), w.end - w.begin);
    } else {
      misses.push_back(w);
    }
  }
  wanted_.clear();
  most_bytes_ = 0;
  const std::vector<Request> requests = join(misses);
  if (requests.empty()) return Status::ok();
  std::vector<std::shared_ptr<std::vector<uint8_t>>> buffers;
  std::vector<ReadRequest> reads;
  uint64_t bytes = 0;
  for (const Request& r : requests) {
    buffers.push_back(std::make_shared<std::vector<uint8_t>>(r.end - r.begin));
    reads.push_back({r.begin, r.end - r.begin, buffers.back()->data()});
    bytes += r.end - r.begin;
  }
  NIMBLE_RETURN_IF_ERROR(file_.read_many(reads));
  stats_->add(ReadKind::kData, reads.size(), bytes);
  stats_->rounds.fetch_add(1, std::memory_order_relaxed);
  for (size_t i = 0; i < requests.size(); ++i) {
    const size_t last =
        i + 1 < requests.size() ? requests[i + 1].first : misses.size();
    for (size_t m = requests[i].first; m < last; ++m) {
      std::memcpy(misses[m].to,
                  buffers[i]->data() + (misses[m].begin - requests[i].begin),
                  misses[m].end - misses[m].begin);
    }
    cache_->put(requests[i].begin, std::move(buffers[i]));
  }
  return Status::ok();
}

}  // namespace nimble
