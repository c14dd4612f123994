#include "nimble/io/sparse_file.h"

#include <algorithm>

#include "nimble/memory/aligned_buffer.h"
#include "nimble/memory/chunk_memory.h"

namespace nimble {
namespace {

// Kernels may read a few bytes past the end.
uint64_t mapped_size(uint64_t size) {
  return round_up(size + AlignedBuffer::kSlack, uint64_t{4096});
}

}  // namespace

Result<std::shared_ptr<SparseFile>> SparseFile::create(uint64_t size,
                                                       std::string name) {
  constexpr uint64_t kMost = uint64_t{1} << 46;  // half of the address space
  uint8_t* const bytes = size > kMost ? nullptr : map_sparse(mapped_size(size));
  if (bytes == nullptr) {
    return Status::io_error(name + ": no address space for " +
                            std::to_string(size) + " bytes");
  }
  return std::shared_ptr<SparseFile>(
      new SparseFile(size, bytes, std::move(name)));
}

SparseFile::~SparseFile() { unmap_chunk(bytes_, mapped_size(size_)); }

Status SparseFile::read_at(const ReadRequest& r) const {
  if (!in_bounds(r.offset, r.size, size_)) {
    return Status::corrupt(name_ + ": wanted " + std::to_string(r.size) +
                           " bytes at offset " + std::to_string(r.offset) +
                           " of a file of " + std::to_string(size_));
  }
  if (r.size > 0) std::memcpy(r.out, bytes_ + r.offset, r.size);
  return Status::ok();
}

bool SparseFile::is_filled(const FilePart& part) const {
  if (part.size == 0) return true;
  const auto after = filled_.upper_bound(part.offset);
  if (after == filled_.begin()) return false;
  return part.offset + part.size <= std::prev(after)->second;
}

void SparseFile::fill_one(const FilePart& part, const uint8_t* from) {
  const uint64_t begin = part.offset;
  const uint64_t end = part.offset + part.size;
  auto at = filled_.upper_bound(begin);
  if (at != filled_.begin() && std::prev(at)->second >= begin) --at;
  // Copies only the gaps between filled ranges: readers may use the others.
  uint64_t new_begin = begin, new_end = end, next = begin;
  const auto copy = [&](uint64_t until) {
    if (until <= next) return;
    std::memcpy(bytes_ + next, from + (next - begin), until - next);
    filled_bytes_ += until - next;
  };
  while (at != filled_.end() && at->first <= end) {
    copy(std::min(at->first, end));
    next = std::max(next, at->second);
    new_begin = std::min(new_begin, at->first);
    new_end = std::max(new_end, at->second);
    at = filled_.erase(at);
  }
  copy(end);
  filled_[new_begin] = new_end;
}

Status SparseFile::fill(std::span<const FilePart> parts, ByteSpan bytes) {
  uint64_t total = 0;
  for (const FilePart& part : parts) {
    if (!in_bounds(part.offset, part.size, size_) ||
        part.size > bytes.size() - total) {
      return Status::corrupt(name_ + ": " + std::to_string(part.size) +
                             " bytes at offset " + std::to_string(part.offset) +
                             " of a file of " + std::to_string(size_) +
                             " do not fit or did not arrive");
    }
    total += part.size;
  }
  if (total != bytes.size()) {
    return Status::corrupt(name_ + ": " + std::to_string(bytes.size()) +
                           " bytes arrived; expected " + std::to_string(total));
  }
  const std::lock_guard lock(mutex_);
  const uint8_t* from = bytes.data();
  for (const FilePart& part : parts) {
    if (!is_filled(part)) fill_one(part, from);
    from += part.size;
  }
  return Status::ok();
}

std::vector<FilePart> SparseFile::missing(
    std::span<const FilePart> parts) const {
  const std::lock_guard lock(mutex_);
  std::vector<FilePart> out;
  for (const FilePart& part : parts) {
    if (!in_bounds(part.offset, part.size, size_) || !is_filled(part)) {
      out.push_back(part);
    }
  }
  return out;
}

uint64_t SparseFile::filled_bytes() const {
  const std::lock_guard lock(mutex_);
  return filled_bytes_;
}

}  // namespace nimble
