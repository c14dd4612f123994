#include "nimble/index/chunk_directory.h"

#include <string>

namespace nimble {

Result<ChunkDirectory> ChunkDirectory::open(
    ByteSpan key_bytes, std::span<const uint32_t> key_ends) {
  uint32_t last = 0;
  for (const uint32_t end : key_ends) {
    if (end < last) return Status::corrupt("boundary keys overlap");
    last = end;
  }
  if (last != key_bytes.size()) {
    return Status::corrupt("boundary keys end at byte " + std::to_string(last) +
                           " of " + std::to_string(key_bytes.size()));
  }
  ChunkDirectory out;
  out.bytes_ = key_bytes;
  out.ends_ = key_ends;
  if (key_ends.empty()) return out;
  size_t shared = out.boundary(0).size();
  for (size_t i = 1; i < out.size(); ++i) {
    shared = std::min(
        shared, shared_prefix(out.boundary(0).first(shared), out.boundary(i)));
  }
  out.prefix_ = out.boundary(0).first(shared);
  out.heads_.reserve(out.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const ByteSpan rest = out.boundary(i).subspan(shared);
    out.heads_.push_back(head_of(rest.data(), rest.size()));
  }
  return out;
}

double ChunkDirectory::place_in(size_t i, ByteSpan target) const {
  const uint64_t low = i == 0 ? heads_[0] : heads_[i - 1], high = heads_[i];
  const uint64_t at = head(target);
  if (at <= low) return 0;
  if (at >= high) return 1;
  return static_cast<double>(at - low) / static_cast<double>(high - low);
}

size_t ChunkDirectory::find_from(size_t start, ByteSpan target) const {
  const size_t n = size();
  if (start >= n) return n;
  const size_t skip = std::min(prefix_.size(), target.size());
  const int c = compare_bytes(target.first(skip), prefix_);
  // A target that is a prefix of the common prefix compares below it, hence
  // before all boundaries.
  if (c != 0) return c < 0 ? start : n;
  const uint64_t head = this->head(target);
  size_t low = start;
  if (start > 0) {  // the answer is probably near
    size_t step = 1;
    while (low + step < n && heads_[low + step] < head) {
      low += step;
      step *= 2;
    }
  }
  for (size_t count = n - low; count > 0;) {
    const size_t half = count - count / 2;
    low = heads_[low + half - 1] < head ? low + half : low;
    count -= half;
  }
  // If heads are equal, the remaining bytes decide.
  size_t high = low;
  for (size_t step = 1; high < n && heads_[high] == head; step *= 2) {
    high = std::min(n, high + step);
  }
  while (low < high) {
    const size_t mid = low + (high - low) / 2;
    if (compare_bytes(boundary(mid), target) < 0) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  return low;
}

}  // namespace nimble
