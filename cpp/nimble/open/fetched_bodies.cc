#include "nimble/open/fetched_bodies.h"

#include <algorithm>
#include <cstring>

#include "nimble/format/constants.h"

namespace nimble {
namespace {

// If a round has more requests than kManyReads and less than kFewBytes per
// request, larger gaps are read to save requests. An example is validity
// between values.
constexpr size_t kManyReads = 16;
constexpr uint64_t kFewBytes = 512;
constexpr uint64_t kGapOfMany = 16 << 10;
constexpr uint64_t kMostOfMany = 4 << 20;  // per round

// Adds a non-empty range to ascending ranges and merges it with ranges that it
// touches. Returns false if an existing range already contains it. Usually the
// new range is the last.
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

FetchedBodies::Buffer& FetchedBodies::buffer_of(const SegmentRef& segment) {
  Buffer& b = buffers_[{segment.offset, segment.size}];
  // Kernels may read a few bytes past the end.
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
  want_ranges(segment);
}

void FetchedBodies::want_bytes(uint64_t offset, uint64_t size, uint64_t most) {
  if (shared_ != nullptr) {
    const bool came_with_open = offset + kTailReadSize >= file_.size();
    if (came_with_open || shared_->contains(offset)) return;
  }
  if (buffers_.contains({offset, size}) ||
      size > most - std::min(most, wanted_for_cache_)) {
    return;
  }
  wanted_for_cache_ += size;
  if (shared_ != nullptr) shared_->insert(offset);
  ranges_ = {{0, size}};
  want_ranges({offset, size, {}});
}

void FetchedBodies::want_ranges(const SegmentRef& segment) {
  Buffer& buffer = buffer_of(segment);
  for (const ByteRange& r : ranges_) {
    if (r.begin >= r.end || !add_range(r, &buffer.filled)) continue;
    wanted_.push_back({{segment.offset + r.begin, segment.offset + r.end},
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

void FetchedBodies::sort_wanted() {
  std::sort(wanted_.begin(), wanted_.end(),
            [](const Wanted& a, const Wanted& b) {
              return a.in_file.begin < b.in_file.begin;
            });
}

std::vector<JoinedRead> FetchedBodies::join() const {
  const uint64_t gap = file_.coalesce_gap();
  std::vector<JoinedRead> reads = join_ranges(ranges_, gap);
  const bool many_of_few_bytes =
      reads.size() > kManyReads && total_size(reads) < reads.size() * kFewBytes;
  if (!many_of_few_bytes || gap == 0 || gap >= kGapOfMany) return reads;
  std::vector<JoinedRead> wide = join_ranges(ranges_, kGapOfMany);
  return total_size(wide) <= kMostOfMany ? wide : reads;
}

void FetchedBodies::count(uint64_t* reads, uint64_t* bytes) {
  sort_wanted();
  ranges_.clear();
  for (const Wanted& w : wanted_) ranges_.push_back(w.in_file);
  const std::vector<JoinedRead> joined = join();
  *reads = joined.size();
  *bytes = total_size(joined);
}

void FetchedBodies::append_wanted(uint64_t gap, std::vector<ByteRange>* out) {
  sort_wanted();
  ranges_.clear();
  for (const Wanted& w : wanted_) ranges_.push_back(w.in_file);
  for (const JoinedRead& r : join_ranges(ranges_, gap)) {
    out->push_back({r.begin, r.end});
  }
}

Status FetchedBodies::fetch() {
  sort_wanted();
  std::vector<uint8_t*> to;
  ranges_.clear();
  for (const Wanted& w : wanted_) {
    const uint64_t size = w.in_file.end - w.in_file.begin;
    uint64_t begin = 0;
    if (const auto bytes = cache_->find(w.in_file.begin, size, &begin)) {
      std::memcpy(w.to, bytes->data() + (w.in_file.begin - begin), size);
    } else {
      ranges_.push_back(w.in_file);
      to.push_back(w.to);
    }
  }
  wanted_.clear();
  most_bytes_ = 0;
  std::vector<JoinedRead> reads = join();
  NIMBLE_RETURN_IF_ERROR(read_joined(file_, stats_, ReadKind::kData, &reads));
  for (JoinedRead& r : reads) {
    for (size_t i = r.first; i < r.last; ++i) {
      const ByteRange& range = ranges_[i];
      std::memcpy(to[i], r.at(range.begin), range.end - range.begin);
    }
    cache_->put(r.begin, std::move(r.bytes));
  }
  return Status::ok();
}

}  // namespace nimble
