#include "nimble/cursor/key_cursor.h"

#include <algorithm>

namespace nimble {

Status ends_before_boundary(const OpenFile& file, size_t group) {
  return Status::corrupt(file.file().name() + ": key group " +
                         std::to_string(group) +
                         " ends before its boundary key");
}

Status KeyCursor::open_group(size_t group) {
  if (group_ && group_number_ == group) return Status::ok();
  is_open_ = false;
  NIMBLE_ASSIGN_OR_RETURN(group_, order_.group(group));
  group_number_ = group;
  return Status::ok();
}

Status KeyCursor::open_chunk(size_t chunk) {
  if (is_open_ && number_ == chunk) return Status::ok();
  is_open_ = false;
  const KeySource* source = nullptr;
  if (columns_ != nullptr) {
    NIMBLE_ASSIGN_OR_RETURN(source, columns_->source());
  }
  NIMBLE_RETURN_IF_ERROR(chunk_.open(order_.file(), *group_, chunk, source));
  number_ = chunk;
  last_ = 0;
  is_open_ = true;
  return Status::ok();
}

Result<bool> KeyCursor::open_chunk_of(ByteSpan target) {
  const ChunkDirectory& groups = order_.groups();
  const size_t group = groups.find(target);
  if (group == groups.size()) return false;
  NIMBLE_RETURN_IF_ERROR(open_group(group));
  const ChunkDirectory& chunks = group_->boundaries();
  const size_t chunk = chunks.find(target);
  // The group's boundary is its last key, which is >= target.
  if (chunk == chunks.size()) {
    return ends_before_boundary(order_.file(), group);
  }
  if (const uint8_t* map = order_.file().file().mapped()) {
    // Prefetches the header and the estimated position of the key together: one
    // cache miss instead of two.
    const ChunkLocation at = group_->location(chunk);
    __builtin_prefetch(map + at.offset);
    const double part = chunks.place_in(chunk, target);
    __builtin_prefetch(
        map + at.offset +
        static_cast<uint64_t>(static_cast<double>(at.size) * part));
  }
  NIMBLE_RETURN_IF_ERROR(open_chunk(chunk));
  return true;
}

Status KeyCursor::open_chunk_at(uint64_t place) {
  NIMBLE_RETURN_IF_ERROR(open_group(order_.group_at(place)));
  return open_chunk(group_->chunk_at(place));
}

Result<uint64_t> KeyCursor::lower_bound(ByteSpan target) {
  NIMBLE_ASSIGN_OR_RETURN(const bool inside, open_chunk_of(target));
  if (!inside) return order_.num_keys();
  const bool ascending =
      last_ > 0 && compare_bytes(last_target_.span(), target) <= 0;
  NIMBLE_ASSIGN_OR_RETURN(
      last_, chunk().lower_bound_from(ascending ? last_ : 0, target));
  last_target_.clear();
  last_target_.put_bytes(target);
  return first_place() + last_;
}

Result<RowRange> KeyCursor::find_prefix(ByteSpan prefix) {
  NIMBLE_ASSIGN_OR_RETURN(const uint64_t begin, lower_bound(prefix));
  if (begin == order_.num_keys()) return RowRange{begin, begin};
  successor_.clear();
  successor_.put_bytes(prefix);
  if (!successor(&successor_)) return RowRange{begin, order_.num_keys()};
  // Most ranges end in the same chunk, close to their beginning.
  if (last_ < chunk().num_keys()) {
    NIMBLE_ASSIGN_OR_RETURN(const uint32_t end,
                            chunk().lower_bound_from(last_, successor_.span()));
    const bool ends_here = end < chunk().num_keys() ||
                           compare_bytes(boundary(), successor_.span()) >= 0;
    if (ends_here) return RowRange{begin, first_place() + end};
  }
  NIMBLE_ASSIGN_OR_RETURN(const uint64_t end, lower_bound(successor_.span()));
  return RowRange{begin, std::max(begin, end)};
}

Result<RowRange> KeyCursor::find_range(const KeyRange& range) {
  if (range.empty()) return RowRange{};
  RowRange out{0, order_.num_keys()};
  if (range.lower) {
    NIMBLE_ASSIGN_OR_RETURN(out.begin, lower_bound(range.lower->span()));
  }
  if (range.upper) {
    NIMBLE_ASSIGN_OR_RETURN(out.end, lower_bound(range.upper->span()));
  }
  out.end = std::max(out.begin, out.end);
  return out;
}

Result<uint64_t> KeyCursor::end_of(ByteSpan prefix) {
  successor_.clear();
  successor_.put_bytes(prefix);
  if (!successor(&successor_)) return order_.num_keys();
  return lower_bound(successor_.span());
}

}  // namespace nimble
