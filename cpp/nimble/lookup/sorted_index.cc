#include "nimble/lookup/sorted_index.h"

#include <algorithm>

#include "nimble/base/hash.h"
#include "nimble/format/flat_buffer.h"
#include "sorted_index_generated.h"

namespace nimble {
namespace {

Status broken(const std::string& what) {
  return Status::corrupt("sorted index: " + what);
}

}  // namespace

struct SortedIndex::Group {
  explicit Group(const CacheBudget::Part& part) : memory(part.counter()) {}

  std::vector<uint64_t> bytes;
  ChunkDirectoryRef chunks;
  ChunkDirectory boundaries;
  uint64_t first_place = 0;
  // A bit for each chunk that has been verified; used in mapped files.
  std::unique_ptr<std::atomic<uint64_t>[]> verified;
  MemoryCounter memory;
};

SortedIndex::SortedIndex(const OpenFile& file) : file_(file) {}

SortedIndex::~SortedIndex() = default;

Result<std::unique_ptr<SortedIndex>> SortedIndex::open(
    const OpenFile& file, std::vector<uint8_t> root) {
  std::unique_ptr<SortedIndex> out(new SortedIndex(file));
  NIMBLE_RETURN_IF_ERROR(out->read_root(root));
  return out;
}

Status SortedIndex::read_root(ByteSpan bytes) {
  auto view =
      FlatBufferView<fb::SortedRoot>::open(bytes, fb::SortedRootIdentifier());
  if (!view) return broken("the root is not a valid FlatBuffer");
  const fb::SortedRoot& root = **view;
  root_ = std::move(*view).release();
  row_width_ = root.row_width();
  num_entries_ = root.num_entries();
  if (row_width_ < 1 || row_width_ > 8 || num_entries_ != file_.num_rows()) {
    return broken(std::to_string(num_entries_) + " entries with rows of " +
                  std::to_string(row_width_) + " bytes, the file has " +
                  std::to_string(file_.num_rows()) + " rows");
  }
  if (!is_aligned(root.groups())) return broken("arrays are not aligned");
  uint64_t last = 0;
  const uint64_t limit = file_.postscript().footer_offset;
  for (size_t i = 0; root.groups() != nullptr && i < root.groups()->size();
       ++i) {
    const fb::GroupRef* g = root.groups()->Get(static_cast<uint32_t>(i));
    const SectionRef s = from_fb(g->section());
    if (g->end_row() <= last || !in_bounds(s.offset, s.size, limit)) {
      return broken("group " + std::to_string(i) + " is impossible");
    }
    last = g->end_row();
    end_places_.push_back(last);
    sections_.push_back(s);
  }
  if (last != num_entries_) return broken("entries are missing");
  ByteSpan keys;
  std::span<const uint32_t> ends;
  if (root.key_bytes() != nullptr)
    keys = {root.key_bytes()->data(), root.key_bytes()->size()};
  if (root.key_ends() != nullptr)
    ends = {root.key_ends()->data(), root.key_ends()->size()};
  if (ends.size() != sections_.size())
    return broken("not one boundary a group");
  NIMBLE_ASSIGN_OR_RETURN(boundaries_, ChunkDirectory::open(keys, ends));
  groups_ =
      std::make_unique<SlotCache<Group>>(sections_.size(), file_.budget());
  file_.budget()->add_resident(root_.size() * 8 + sections_.size() * 48);
  return Status::ok();
}

Result<SortedIndex::GroupHandle> SortedIndex::group(size_t i) const {
  if (GroupHandle loaded = groups_->find(i)) return loaded;
  Result<GroupHandle> loaded = load_group(i);
  file_.budget()->shrink();
  return loaded;
}

Result<SortedIndex::GroupHandle> SortedIndex::load_group(size_t i) const {
  const ReadLock lock(groups_->mutex(), file_.file());
  if (GroupHandle loaded = groups_->find(i)) return loaded;
  auto made = read_group(i);
  if (!made) {
    return std::move(made).error().with_context(
        file_.file().name() + ": sorted index group " + std::to_string(i) +
        " at offset " + std::to_string(sections_[i].offset));
  }
  return groups_->publish(i, std::move(made).value());
}

Result<std::unique_ptr<const SortedIndex::Group>> SortedIndex::read_group(
    size_t i) const {
  NIMBLE_ASSIGN_OR_RETURN(
      const std::vector<uint8_t> bytes,
      file_.read_section(sections_[i], "sorted index group"));
  auto out = std::make_unique<Group>(*groups_);
  auto group = FlatBufferView<fb::SortedGroup>::open(bytes, nullptr);
  if (!group) return broken("not a valid FlatBuffer");
  const fb::ChunkDirectory* chunks = (*group)->chunks();
  out->bytes = std::move(*group).release();
  if (chunks == nullptr) return broken("a group without chunks");
  out->first_place = first_place(i);
  NIMBLE_ASSIGN_OR_RETURN(
      out->chunks, open_chunks(*chunks, end_places_[i] - out->first_place,
                               file_.postscript().footer_offset));
  NIMBLE_ASSIGN_OR_RETURN(
      out->boundaries,
      ChunkDirectory::open(out->chunks.key_bytes, out->chunks.key_ends));
  out->verified.reset(
      new std::atomic<uint64_t>[out->boundaries.size() / 64 + 1]());
  out->memory.add(sizeof *out + out->bytes.capacity() * 8 +
                  out->boundaries.size() * 8);
  return std::unique_ptr<const Group>(std::move(out));
}

// ------------------------------------------------------------------- cursor

Status SortedCursor::open_group(size_t group) {
  if (group_ && group_index_ == group) return Status::ok();
  chunk_ = nullptr;
  NIMBLE_ASSIGN_OR_RETURN(group_, index_.group(group));
  group_index_ = group;
  return Status::ok();
}

Status SortedCursor::open_chunk(size_t chunk) {
  if (chunk_ != nullptr && chunk_index_ == chunk) return Status::ok();
  chunk_ = nullptr;
  const ChunkDirectoryRef& d = group_->chunks;
  const uint64_t begin = chunk == 0 ? 0 : d.chunk_ends[chunk - 1];
  const uint64_t first = chunk == 0 ? 0 : d.chunk_end_rows[chunk - 1];
  KeyChunkPlace place;
  place.offset = d.key_stream_offset + begin;
  place.size = d.chunk_ends[chunk] - begin;
  place.num_keys = static_cast<uint32_t>(d.chunk_end_rows[chunk] - first);
  place.verified = &group_->verified[chunk / 64];
  place.verified_bit = uint64_t{1} << (chunk % 64);
  NIMBLE_ASSIGN_OR_RETURN(chunk_, chunks_.open(place));
  chunk_index_ = chunk;
  chunk_first_ = group_->first_place + first;
  last_ = 0;
  last_target_.clear();
  return Status::ok();
}

Result<uint64_t> SortedCursor::lower_bound(ByteSpan target) {
  const size_t group = index_.boundaries_.find(target);
  if (group == index_.boundaries_.size()) return index_.num_entries_;
  NIMBLE_RETURN_IF_ERROR(open_group(group));
  const size_t chunk = group_->boundaries.find(target);
  if (chunk == group_->boundaries.size()) {
    return broken("a group ends before its boundary");
  }
  NIMBLE_RETURN_IF_ERROR(open_chunk(chunk));
  const bool ascending =
      last_ > 0 && compare_bytes(last_target_.span(), target) <= 0;
  NIMBLE_ASSIGN_OR_RETURN(
      last_, chunk_->lower_bound_from(ascending ? last_ : 0, target));
  last_target_.clear();
  last_target_.put_bytes(target);
  return chunk_first_ + last_;
}

Result<PlaceRange> SortedCursor::find_prefix(ByteSpan prefix) {
  NIMBLE_ASSIGN_OR_RETURN(const uint64_t begin, lower_bound(prefix));
  if (begin == index_.num_entries_) return PlaceRange{begin, begin};
  successor_.clear();
  successor_.put_bytes(prefix);
  if (!successor(&successor_)) return PlaceRange{begin, index_.num_entries_};
  // Mostly the range ends in the same chunk, close to where it begins.
  if (last_ < chunk_->num_keys()) {
    NIMBLE_ASSIGN_OR_RETURN(const uint32_t end,
                            chunk_->lower_bound_from(last_, successor_.span()));
    const bool ends_here =
        end < chunk_->num_keys() ||
        compare_bytes(group_->boundaries.boundary(chunk_index_),
                      successor_.span()) >= 0;
    if (ends_here) return PlaceRange{begin, chunk_first_ + end};
  }
  NIMBLE_ASSIGN_OR_RETURN(const uint64_t end, lower_bound(successor_.span()));
  return PlaceRange{begin, std::max(begin, end)};
}

Result<PlaceRange> SortedCursor::find_range(const KeyRange& range) {
  if (range.empty()) return PlaceRange{};
  PlaceRange out{0, index_.num_entries_};
  if (range.lower) {
    NIMBLE_ASSIGN_OR_RETURN(out.begin, lower_bound(range.lower->span()));
  }
  if (range.upper) {
    NIMBLE_ASSIGN_OR_RETURN(out.end, lower_bound(range.upper->span()));
  }
  out.end = std::max(out.begin, out.end);
  return out;
}

Result<bool> SortedCursor::has_entry(ByteSpan key, uint64_t row) {
  wanted_.clear();
  wanted_.put_bytes(key);
  store_be(wanted_.extend(index_.row_width_), row, index_.row_width_);
  NIMBLE_ASSIGN_OR_RETURN(const uint64_t place, lower_bound(wanted_.span()));
  // Boundaries are below the first entry behind them: it is this chunk's.
  if (place == index_.num_entries_ || last_ == chunk_->num_keys()) return false;
  NIMBLE_RETURN_IF_ERROR(chunk_->key_at(last_, &found_));
  return compare_bytes(found_.span(), wanted_.span()) == 0;
}

Status SortedCursor::open_place(uint64_t place) {
  const auto& ends = index_.end_places_;
  NIMBLE_RETURN_IF_ERROR(open_group(static_cast<size_t>(
      std::upper_bound(ends.begin(), ends.end(), place) - ends.begin())));
  const auto& chunk_ends = group_->chunks.chunk_end_rows;
  return open_chunk(
      static_cast<size_t>(std::upper_bound(chunk_ends.begin(), chunk_ends.end(),
                                           place - group_->first_place) -
                          chunk_ends.begin()));
}

Status SortedCursor::entries(PlaceRange places, KeyBuffer* out) {
  out->reset(0);
  for (uint64_t at = places.begin; at < places.end;) {
    if (chunk_ == nullptr || at < chunk_first_ ||
        at >= chunk_first_ + chunk_->num_keys()) {
      NIMBLE_RETURN_IF_ERROR(open_place(at));
    }
    const auto begin = static_cast<uint32_t>(at - chunk_first_);
    const auto end = static_cast<uint32_t>(
        std::min<uint64_t>(chunk_->num_keys(), begin + (places.end - at)));
    NIMBLE_RETURN_IF_ERROR(chunk_->decode(begin, end, out));
    at += end - begin;
  }
  return Status::ok();
}

Result<uint64_t> SortedCursor::row_of(ByteSpan entry) const {
  const uint32_t width = index_.row_width_;
  if (entry.size() < width) return broken("an entry without a row");
  const uint8_t* row_at = entry.data() + entry.size() - width;
  const uint64_t row = head_of(row_at, width) >> (64 - 8 * width);
  if (row < index_.num_entries_) return row;
  return broken("row " + std::to_string(row) + " of " +
                std::to_string(index_.num_entries_));
}

Result<std::optional<uint64_t>> SortedCursor::find_first(ByteSpan key) {
  NIMBLE_ASSIGN_OR_RETURN(const uint64_t place, lower_bound(key));
  if (place == index_.num_entries_) return std::optional<uint64_t>();
  // The place may be the first of the next chunk.
  NIMBLE_RETURN_IF_ERROR(entries({place, place + 1}, &entries_));
  const ByteSpan entry = entries_.key(0);
  if (entry.size() < key.size() ||
      compare_bytes(entry.first(key.size()), key) != 0) {
    return std::optional<uint64_t>();
  }
  NIMBLE_ASSIGN_OR_RETURN(const uint64_t row, row_of(entry));
  return std::optional<uint64_t>(row);
}

Status SortedCursor::rows(PlaceRange places, std::vector<uint64_t>* out) {
  constexpr uint64_t kBatch = 4096;
  for (uint64_t at = places.begin; at < places.end; at += kBatch) {
    const PlaceRange part{at, std::min(places.end, at + kBatch)};
    NIMBLE_RETURN_IF_ERROR(entries(part, &entries_));
    for (size_t i = 0; i < entries_.size(); ++i) {
      NIMBLE_ASSIGN_OR_RETURN(const uint64_t row, row_of(entries_.key(i)));
      out->push_back(row);
    }
  }
  return Status::ok();
}

}  // namespace nimble
