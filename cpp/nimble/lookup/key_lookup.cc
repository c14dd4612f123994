#include "nimble/lookup/key_lookup.h"

#include <algorithm>

namespace nimble {
namespace {

// The chunk in `bytes`, its checksum compared first if `verify`.
Result<KeyChunk> checked_chunk(const OpenFile& file, const LoadedGroup& group,
                               size_t chunk, const KeySource* source,
                               bool verify, ByteSpan bytes) {
  Status status = verify ? KeyChunk::verify_checksum(bytes) : Status();
  if (status) {
    if (verify) group.set_chunk_verified(chunk);
    const ChunkPlace place = group.chunk_place(chunk);
    auto opened =
        KeyChunk::open(bytes, place.num_keys, source, place.first_row);
    if (opened) [[likely]]
      return opened;
    status = std::move(opened).error();
  }
  return std::move(status).with_context(
      file.file().name() + ": key chunk " + std::to_string(chunk) +
      " at offset " + std::to_string(group.chunk_place(chunk).offset));
}

}  // namespace

Result<KeyChunk> open_mapped_chunk(const OpenFile& file,
                                   const LoadedGroup& group, size_t chunk,
                                   const KeySource* source) {
  const ChunkPlace place = group.chunk_place(chunk);
  const bool verify = !group.chunk_verified(chunk);
  if (verify) file.stats()->add(ReadKind::kIndex, 1, place.size);
  return checked_chunk(
      file, group, chunk, source, verify,
      {file.file().mapped() + place.offset, static_cast<size_t>(place.size)});
}

Status ends_before_boundary(const OpenFile& file, size_t group) {
  return Status::corrupt(file.file().name() + ": stripe group " +
                         std::to_string(group) +
                         " ends before its boundary key");
}

Status KeyCursor::open_group(size_t group) {
  if (group_ && group_index_ == group) return Status::ok();
  has_chunk_ = false;
  NIMBLE_ASSIGN_OR_RETURN(group_, file_.groups().get(group, ReadKind::kIndex));
  group_index_ = group;
  return Status::ok();
}

Status KeyCursor::open_chunk(size_t chunk) {
  if (has_chunk_ && chunk_index_ == chunk) return Status::ok();
  has_chunk_ = false;
  if (file_.file().mapped() != nullptr) {
    NIMBLE_ASSIGN_OR_RETURN(const KeySource* source, columns_.source());
    NIMBLE_ASSIGN_OR_RETURN(chunk_,
                            open_mapped_chunk(file_, *group_, chunk, source));
  } else {
    NIMBLE_RETURN_IF_ERROR(read_chunk(chunk));
  }
  chunk_index_ = chunk;
  chunk_first_row_ = group_->chunk_place(chunk).first_row;
  has_chunk_ = true;
  return Status::ok();
}

Status KeyCursor::read_chunk(size_t chunk) {
  const auto [offset, size, first_row, num_keys] = group_->chunk_place(chunk);
  uint64_t at = 0;
  owner_ = file_.range_cache()->find(offset, size, &at);
  if (owner_ == nullptr) {
    auto read = std::make_shared<std::vector<uint8_t>>(size);
    NIMBLE_RETURN_IF_ERROR(file_.file().read_at({offset, size, read->data()}));
    file_.stats()->add(ReadKind::kIndex, 1, size);
    file_.stats()->rounds.fetch_add(1, std::memory_order_relaxed);
    owner_ = read;
    at = offset;
    file_.range_cache()->put(offset, std::move(read));
  }
  NIMBLE_ASSIGN_OR_RETURN(const KeySource* source, columns_.source());
  NIMBLE_ASSIGN_OR_RETURN(
      chunk_, checked_chunk(file_, *group_, chunk, source, true,
                            ByteSpan(*owner_).subspan(offset - at, size)));
  return Status::ok();
}

Result<bool> KeyCursor::seek_chunk(ByteSpan target) {
  const ChunkDirectory& groups = file_.group_boundaries();
  const size_t group = groups.find(target);
  if (group == groups.size()) return false;
  NIMBLE_RETURN_IF_ERROR(open_group(group));
  const size_t chunk = group_->chunks().find(target);
  // The group's last boundary is its last key, which is >= target.
  if (chunk == group_->chunks().size()) {
    return ends_before_boundary(file_, group);
  }
  if (const uint8_t* map = file_.file().mapped()) {
    // Its header, and its key about where that should be: one miss, not two.
    const ChunkPlace place = group_->chunk_place(chunk);
    __builtin_prefetch(map + place.offset);
    const double part = group_->chunks().place_in(chunk, target);
    __builtin_prefetch(
        map + place.offset +
        static_cast<uint64_t>(static_cast<double>(place.size) * part));
  }
  NIMBLE_RETURN_IF_ERROR(open_chunk(chunk));
  return true;
}

Result<ChunkAnswer> search_chunk(const KeyChunk& chunk, ByteSpan boundary,
                                 const ChunkProbe& probe, ByteBuffer* scratch) {
  ChunkAnswer out;
  NIMBLE_ASSIGN_OR_RETURN(const FoundKey found,
                          chunk.find(probe.key, probe.gap));
  out.begin = out.end = found.at;
  if (probe.whole) {
    // No key is the beginning of another: the next chunk cannot have it.
    if (!found.is_equal) return out;
    ++out.end;
    if (probe.unique) return out;
    if (out.end < chunk.num_keys()) {
      NIMBLE_ASSIGN_OR_RETURN(const bool again,
                              chunk.matches(out.end, probe.key));
      if (!again) return out;
    }
  }
  out.ends_here = false;
  scratch->clear();
  scratch->put_bytes(probe.key);
  if (out.begin == chunk.num_keys() || !successor(scratch)) return out;
  // Mostly the range ends in the same chunk, close to where it begins.
  NIMBLE_ASSIGN_OR_RETURN(out.end,
                          chunk.lower_bound_from(out.begin, scratch->span()));
  out.ends_here = out.end < chunk.num_keys() ||
                  compare_bytes(boundary, scratch->span()) >= 0;
  return out;
}

Result<uint64_t> KeyCursor::lower_bound(ByteSpan target) {
  NIMBLE_ASSIGN_OR_RETURN(const bool inside, seek_chunk(target));
  if (!inside) return file_.num_rows();
  NIMBLE_ASSIGN_OR_RETURN(const uint32_t at, chunk_->lower_bound(target));
  return chunk_first_row_ + at;
}

Result<uint64_t> KeyCursor::end_of(ByteSpan prefix) {
  successor_.clear();
  successor_.put_bytes(prefix);
  if (!successor(&successor_)) return file_.num_rows();
  return lower_bound(successor_.span());
}

Result<RowRange> KeyCursor::rows_to_read(ByteSpan target) {
  NIMBLE_ASSIGN_OR_RETURN(const bool inside, seek_chunk(target));
  if (!inside) return RowRange{};
  NIMBLE_ASSIGN_OR_RETURN(const KeyGap gap, chunk_->gap(target));
  return columns_.answer_rows(chunk_first_row_ + gap.begin,
                              chunk_first_row_ + gap.end);
}

Result<RowRange> KeyCursor::find_here(ByteSpan key, bool whole) {
  ChunkProbe probe{key, {}, whole, file_.footer().cluster->unique};
  NIMBLE_ASSIGN_OR_RETURN(probe.gap, chunk_->gap(key));
  NIMBLE_ASSIGN_OR_RETURN(
      const ChunkAnswer found,
      search_chunk(*chunk_, group_->chunks().boundary(chunk_index_), probe,
                   &successor_));
  const uint64_t begin = chunk_first_row_ + found.begin;
  if (found.ends_here) return RowRange{begin, chunk_first_row_ + found.end};
  NIMBLE_ASSIGN_OR_RETURN(const uint64_t end, end_of(key));
  return RowRange{begin, std::max(begin, end)};
}

Result<RowRange> KeyCursor::find_prefix(ByteSpan prefix) {
  // Before the first key there is nothing to read.
  const ByteSpan first = file_.footer().cluster->first_key;
  if (compare_bytes(prefix, first) < 0 &&
      (prefix.size() > first.size() ||
       compare_bytes(first.first(prefix.size()), prefix) != 0)) {
    return RowRange{};
  }
  NIMBLE_ASSIGN_OR_RETURN(const bool inside, seek_chunk(prefix));
  if (!inside) return RowRange{file_.num_rows(), file_.num_rows()};
  return find_here(prefix, false);
}

Result<std::optional<uint64_t>> KeyCursor::find_first(ByteSpan key) {
  std::optional<uint64_t> row;
  NIMBLE_ASSIGN_OR_RETURN(const BloomFilter* bloom, index_.bloom(1));
  if (bloom != nullptr && !bloom->might_contain(key)) return row;
  if (compare_bytes(key, file_.footer().cluster->first_key) < 0) return row;
  NIMBLE_ASSIGN_OR_RETURN(const bool inside, seek_chunk(key));
  if (!inside) return row;
  NIMBLE_ASSIGN_OR_RETURN(const KeyGap gap, chunk_->gap(key));
  NIMBLE_ASSIGN_OR_RETURN(const FoundKey found, chunk_->find(key, gap));
  if (found.is_equal) row = chunk_first_row_ + found.at;
  return row;
}

Result<RowRange> KeyCursor::find_whole(ByteSpan key) {
  if (compare_bytes(key, file_.footer().cluster->first_key) < 0) {
    return RowRange{};
  }
  NIMBLE_ASSIGN_OR_RETURN(const bool inside, seek_chunk(key));
  if (!inside) return RowRange{};
  return find_here(key, true);
}

Result<RowRange> KeyCursor::find_range(const KeyRange& range) {
  if (range.empty()) return RowRange{};
  RowRange out{0, file_.num_rows()};
  if (range.lower) {
    NIMBLE_ASSIGN_OR_RETURN(out.begin, lower_bound(range.lower->span()));
  }
  if (range.upper) {
    NIMBLE_ASSIGN_OR_RETURN(out.end, lower_bound(range.upper->span()));
  }
  return out;
}

Result<bool> KeyCursor::stored_key_at(uint64_t row, ByteBuffer* key) {
  NIMBLE_RETURN_IF_ERROR(open_group(file_.group_of(row)));
  const auto& ends = group_->view().chunks().chunk_end_rows;
  const uint64_t in_group = row - group_->first_row();
  const auto chunk = static_cast<size_t>(
      std::upper_bound(ends.begin(), ends.end(), in_group) - ends.begin());
  NIMBLE_RETURN_IF_ERROR(open_chunk(chunk));
  const auto i = static_cast<uint32_t>(row - chunk_first_row_);
  if (i % chunk_->step() != 0) return false;
  NIMBLE_RETURN_IF_ERROR(chunk_->key_at(i, key));
  return true;
}

}  // namespace nimble
