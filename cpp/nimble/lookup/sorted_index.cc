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
  KeyChunkGroup chunks;
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

size_t SortedIndex::group_at(uint64_t place) const {
  return static_cast<size_t>(
      std::upper_bound(end_places_.begin(), end_places_.end(), place) -
      end_places_.begin());
}

Result<KeyGroupHandle> SortedIndex::group(size_t i) const {
  GroupHandle loaded = groups_->find(i);
  if (!loaded) {
    NIMBLE_ASSIGN_OR_RETURN(loaded, load_group(i));
    file_.budget()->shrink();
  }
  const KeyChunkGroup& chunks = loaded->chunks;
  return std::move(loaded).narrow(chunks);
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
  const uint64_t first = i == 0 ? 0 : end_places_[i - 1];
  NIMBLE_ASSIGN_OR_RETURN(const ChunkDirectoryRef layout,
                          open_chunks(*chunks, end_places_[i] - first,
                                      file_.postscript().footer_offset));
  NIMBLE_ASSIGN_OR_RETURN(
      ChunkDirectory boundaries,
      ChunkDirectory::open(layout.key_bytes, layout.key_ends));
  out->chunks = KeyChunkGroup(layout, std::move(boundaries), first);
  out->memory.add(sizeof *out + out->bytes.capacity() * 8 +
                  out->chunks.size() * 8);
  return std::unique_ptr<const Group>(std::move(out));
}

// ------------------------------------------------------------------- cursor

Result<bool> SortedCursor::has_entry(ByteSpan key, uint64_t row) {
  wanted_.clear();
  wanted_.put_bytes(key);
  store_be(wanted_.extend(index_.row_width()), row, index_.row_width());
  NIMBLE_ASSIGN_OR_RETURN(const uint64_t place, lower_bound(wanted_.span()));
  if (place == index_.num_keys()) return false;
  NIMBLE_RETURN_IF_ERROR(entries({place, place + 1}, &entries_));
  return compare_bytes(entries_.key(0), wanted_.span()) == 0;
}

Status SortedCursor::entries(PlaceRange places, KeyBuffer* out) {
  out->reset(0);
  for (uint64_t at = places.begin; at < places.end;) {
    if (!keys_.is_open(at)) NIMBLE_RETURN_IF_ERROR(keys_.open_chunk_at(at));
    const KeyChunk& chunk = keys_.chunk();
    const auto begin = static_cast<uint32_t>(at - keys_.first_place());
    const auto end = static_cast<uint32_t>(
        std::min<uint64_t>(chunk.num_keys(), begin + (places.end - at)));
    NIMBLE_RETURN_IF_ERROR(chunk.decode(begin, end, out));
    at += end - begin;
  }
  return Status::ok();
}

Result<uint64_t> SortedCursor::row_of(ByteSpan entry) const {
  const uint32_t width = index_.row_width();
  if (entry.size() < width) return broken("an entry without a row");
  const uint8_t* row_at = entry.data() + entry.size() - width;
  const uint64_t row = head_of(row_at, width) >> (64 - 8 * width);
  if (row < index_.num_keys()) return row;
  return broken("row " + std::to_string(row) + " of " +
                std::to_string(index_.num_keys()));
}

Result<std::optional<uint64_t>> SortedCursor::find_first(ByteSpan key) {
  NIMBLE_ASSIGN_OR_RETURN(const uint64_t place, lower_bound(key));
  if (place == index_.num_keys()) return std::optional<uint64_t>();
  // The place may be in the next chunk.
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
