#include "nimble/file/key_lookup.h"

#include <algorithm>

#include "nimble/base/hash.h"
#include "nimble/key/key_sort.h"

namespace nimble {

Status KeyCursor::open_group(size_t group) {
  if (group_ != nullptr && group_index_ == group) return Status::ok();
  has_chunk_ = false;
  NIMBLE_ASSIGN_OR_RETURN(group_, file_.groups().get(group, ReadKind::kIndex));
  group_index_ = group;
  return Status::ok();
}

Status KeyCursor::open_chunk(size_t chunk) {
  if (has_chunk_ && chunk_index_ == chunk) return Status::ok();
  has_chunk_ = false;
  const ChunkDirectoryRef& d = group_->view().chunks();
  const uint64_t begin = chunk == 0 ? 0 : d.chunk_ends[chunk - 1];
  const uint64_t size = d.chunk_ends[chunk] - begin;
  const uint64_t offset = d.key_stream_offset + begin;
  const uint64_t first = chunk == 0 ? 0 : d.chunk_end_rows[chunk - 1];
  const auto fail = [&](Status s) {
    return std::move(s).with_context(file_.file().name() + ": key chunk " +
                                     std::to_string(chunk) + " at offset " +
                                     std::to_string(offset));
  };
  ByteSpan bytes;
  bool verify = true;
  if (const uint8_t* map = file_.file().mapped()) {
    bytes = {map + offset, size};
    verify = !group_->chunk_verified(chunk);
    if (verify) file_.stats()->add(ReadKind::kIndex, 1, size);
  } else {
    uint64_t at = 0;
    owner_ = file_.range_cache()->find(offset, size, &at);
    if (owner_ == nullptr) {
      auto read = std::make_shared<std::vector<uint8_t>>(size);
      NIMBLE_RETURN_IF_ERROR(
          file_.file().read_at({offset, size, read->data()}));
      file_.stats()->add(ReadKind::kIndex, 1, size);
      file_.stats()->rounds.fetch_add(1, std::memory_order_relaxed);
      owner_ = read;
      at = offset;
      file_.range_cache()->put(offset, std::move(read));
    }
    bytes = ByteSpan(*owner_).subspan(offset - at, size);
  }
  if (verify) {
    if (Status s = KeyChunk::verify_checksum(bytes); !s)
      return fail(std::move(s));
    group_->set_chunk_verified(chunk);
  }
  NIMBLE_ASSIGN_OR_RETURN(const KeySource* source, file_.key_columns());
  auto opened = KeyChunk::open(
      bytes, static_cast<uint32_t>(d.chunk_end_rows[chunk] - first), source,
      group_->first_row() + first);
  if (!opened) return fail(std::move(opened).error());
  chunk_ = std::move(opened).value();
  chunk_index_ = chunk;
  chunk_first_row_ = group_->first_row() + first;
  last_ = 0;
  last_target_.clear();
  has_chunk_ = true;
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
    return Status::corrupt(file_.file().name() + ": stripe group " +
                           std::to_string(group) +
                           " ends before its boundary key");
  }
  NIMBLE_RETURN_IF_ERROR(open_chunk(chunk));
  return true;
}

Result<uint64_t> KeyCursor::lower_bound(ByteSpan target) {
  NIMBLE_ASSIGN_OR_RETURN(const bool inside, seek_chunk(target));
  if (!inside) return file_.num_rows();
  const bool ascending =
      last_ > 0 && compare_bytes(last_target_.span(), target) <= 0;
  NIMBLE_ASSIGN_OR_RETURN(
      last_, chunk_->lower_bound_from(ascending ? last_ : 0, target));
  last_target_.clear();
  last_target_.put_bytes(target);
  return chunk_first_row_ + last_;
}

Result<RowRange> KeyCursor::find_prefix(ByteSpan prefix) {
  // Before the first key there is nothing to read.
  const ByteSpan first = file_.footer().cluster->first_key;
  if (compare_bytes(prefix, first) < 0 &&
      (prefix.size() > first.size() ||
       compare_bytes(first.first(prefix.size()), prefix) != 0)) {
    return RowRange{};
  }
  NIMBLE_ASSIGN_OR_RETURN(const uint64_t begin, lower_bound(prefix));
  if (begin == file_.num_rows()) return RowRange{begin, begin};
  successor_.clear();
  successor_.put_bytes(prefix);
  if (!successor(&successor_)) return RowRange{begin, file_.num_rows()};
  // Mostly the range ends in the same chunk, close to where it begins.
  if (last_ < chunk_->num_keys()) {
    NIMBLE_ASSIGN_OR_RETURN(const uint32_t end,
                            chunk_->lower_bound_from(last_, successor_.span()));
    const bool ends_here =
        end < chunk_->num_keys() ||
        compare_bytes(group_->chunks().boundary(chunk_index_),
                      successor_.span()) >= 0;
    if (ends_here) return RowRange{begin, chunk_first_row_ + end};
  }
  NIMBLE_ASSIGN_OR_RETURN(const uint64_t end, lower_bound(successor_.span()));
  return RowRange{begin, end};
}

Result<RowRange> KeyCursor::find_key(ByteSpan key) {
  NIMBLE_ASSIGN_OR_RETURN(const BloomFilter* bloom, file_.bloom(1));
  if (bloom != nullptr && !bloom->might_contain(key)) return RowRange{};
  return find_whole(key);
}

Result<RowRange> KeyCursor::find_whole(ByteSpan key) {
  if (!file_.footer().cluster->unique) return find_prefix(key);
  // At most one row: where it ends needs no second bound, which might lie in
  // another chunk or group.
  if (compare_bytes(key, file_.footer().cluster->first_key) < 0) {
    return RowRange{};
  }
  NIMBLE_ASSIGN_OR_RETURN(const uint64_t row, lower_bound(key));
  if (row == file_.num_rows() || last_ == chunk_->num_keys()) return RowRange{};
  NIMBLE_RETURN_IF_ERROR(chunk_->key_at(last_, &found_));
  if (compare_bytes(found_.span(), key) != 0) return RowRange{};
  return RowRange{row, row + 1};
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

Status KeyCursor::key_at(uint64_t row, ByteBuffer* key) {
  NIMBLE_RETURN_IF_ERROR(open_group(file_.group_of(row)));
  const auto& ends = group_->view().chunks().chunk_end_rows;
  const uint64_t in_group = row - group_->first_row();
  const auto chunk = static_cast<size_t>(
      std::upper_bound(ends.begin(), ends.end(), in_group) - ends.begin());
  NIMBLE_RETURN_IF_ERROR(open_chunk(chunk));
  return chunk_->key_at(static_cast<uint32_t>(row - chunk_first_row_), key);
}

Status find_keys(const FileReader& file, const KeyBuffer& keys, bool whole,
                 std::vector<RowRange>* out) {
  const size_t n = keys.size();
  out->assign(n, RowRange{});
  if (n == 0 || file.num_rows() == 0) return Status::ok();
  std::vector<uint8_t> maybe(n, 1);
  if (whole) {
    NIMBLE_ASSIGN_OR_RETURN(const BloomFilter* bloom, file.bloom(n));
    if (bloom != nullptr) {
      std::vector<uint64_t> hashes(n);
      for (size_t i = 0; i < n; ++i) hashes[i] = key_hash64(keys.key(i));
      bloom->might_contain(hashes, maybe.data());
    }
  }
  std::vector<uint64_t> order;
  sort_keys(keys, &order);
  KeyCursor cursor(file);
  size_t last = n;
  for (const uint64_t i : order) {
    if (maybe[i] == 0) continue;
    if (last < n && compare_bytes(keys.key(i), keys.key(last)) == 0) {
      (*out)[i] = (*out)[last];
      continue;
    }
    NIMBLE_ASSIGN_OR_RETURN((*out)[i], whole ? cursor.find_whole(keys.key(i))
                                             : cursor.find_prefix(keys.key(i)));
    last = i;
  }
  return Status::ok();
}

}  // namespace nimble
