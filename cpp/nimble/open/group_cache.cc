#include "nimble/open/group_cache.h"

#include <algorithm>

#include "nimble/base/hash.h"

namespace nimble {

LoadedGroup::LoadedGroup(GroupView group, std::vector<uint8_t> bytes,
                         ChunkDirectory chunks, uint64_t first_row,
                         const FileShared* shared,
                         const CacheBudget::Part* part)
    : bytes_(std::move(bytes)),
      view_(std::move(group)),
      keys_(view_.chunks(), std::move(chunks), first_row),
      decoders_(new std::atomic<const Decoder*>[view_.num_segments()]()),
      shared_(shared),
      part_(part),
      memory_(part == nullptr ? nullptr : part->counter()) {
  memory_.add(sizeof *this + bytes_.capacity() + view_.memory_bytes() +
              keys_.size() * 8 + view_.num_segments() * 8);
}

LoadedGroup::~LoadedGroup() {
  for (uint32_t i = 0; i < view_.num_segments(); ++i) {
    delete decoders_[i].load(std::memory_order_relaxed);
  }
}

Result<const Decoder*> LoadedGroup::decoder(const StripeView& stripe,
                                            uint32_t stream, uint32_t index,
                                            ValueType type) const {
  const uint32_t segment = stripe.first_segment[stream] + index;
  std::atomic<const Decoder*>& slot = decoders_[stripe.segment_base + segment];
  if (const Decoder* d = slot.load(std::memory_order_acquire)) [[likely]] {
    return d;
  }
  const SegmentRef ref = stripe.segment(segment);
  const uint64_t first = uint64_t{index} * kSegmentValues;
  DecodeContext context;
  context.type = type;
  context.num_values = static_cast<uint32_t>(
      std::min<uint64_t>(stripe.values[stream] - first, kSegmentValues));
  context.body_size = ref.size;
  if (shared_ != nullptr) context.shared = shared_->of_stream(stream);
  SharedUse shared_use;
  context.shared_use = &shared_use;
  ByteReader head(ref.head);
  auto made = open_decoder(&head, context);
  if (!made) {
    return std::move(made).error().with_context(
        "stream " + std::to_string(stream) + " segment at offset " +
        std::to_string(ref.offset));
  }
  // If another thread stored its decoder first, that decoder is used.
  (*made)->set_shared_use(shared_use);
  const Decoder* fresh = std::move(made).value().release();
  const Decoder* expected = nullptr;
  if (!slot.compare_exchange_strong(expected, fresh,
                                    std::memory_order_acq_rel)) {
    delete fresh;
    return expected;
  }
  memory_.add(fresh->memory_bytes());
  if (part_ != nullptr) part_->budget().shrink();
  return fresh;
}

GroupCache::GroupCache(const ReadableFile& file, const FileFooter& footer,
                       const StreamPlan& plan, const FileShared* shared,
                       ReadStats* stats, CacheBudget* budget)
    : file_(file),
      footer_(footer),
      plan_(plan),
      shared_(shared),
      stats_(stats),
      groups_(footer.groups.size(), budget) {}

Status GroupCache::in_group(size_t group, Status status) const {
  return std::move(status).with_context(
      file_.name() + ": stripe group " + std::to_string(group) + " at offset " +
      std::to_string(footer_.groups[group].section.offset));
}

Result<GroupHandle> GroupCache::load(size_t group, ReadKind kind) const {
  Result<GroupHandle> loaded = load_locked(group, kind);
  groups_.budget().shrink();
  return loaded;
}

Result<GroupHandle> GroupCache::load_locked(size_t group, ReadKind kind) const {
  const ReadLock lock(groups_.mutex(), file_);
  if (GroupHandle loaded = groups_.find(group)) return loaded;
  const SectionRef& section = footer_.groups[group].section;
  std::vector<uint8_t> owned;
  if (file_.mapped() != nullptr) {
    file_.will_need(section.offset, section.size);
  } else {
    owned.resize(section.size);
    Status read = file_.read_at({section.offset, section.size, owned.data()});
    if (!read) return in_group(group, std::move(read));
  }
  stats_->add(kind, 1, section.size);
  stats_->rounds.fetch_add(1, std::memory_order_relaxed);
  auto made = open_group(group, std::move(owned));
  if (!made) return in_group(group, std::move(made).error());
  return groups_.publish(group, std::move(made).value());
}

Status GroupCache::load_together(std::span<const size_t> groups,
                                 ReadKind kind) const {
  if (file_.mapped() != nullptr) return Status::ok();
  Status status = load_locked(groups, kind);
  groups_.budget().shrink();
  return status;
}

Status GroupCache::load_locked(std::span<const size_t> groups,
                               ReadKind kind) const {
  const ReadLock lock(groups_.mutex(), file_);
  std::vector<size_t> missing;
  uint64_t size = 0;
  for (const size_t g : groups) {
    if (groups_.find(g)) continue;
    size += footer_.groups[g].section.size;
    if (size > groups_.budget().capacity() / 2) break;
    missing.push_back(g);
  }
  if (missing.size() < 2) return Status::ok();  // get() is sufficient
  std::vector<std::vector<uint8_t>> bytes(missing.size());
  std::vector<ReadRequest> reads;
  for (size_t i = 0; i < missing.size(); ++i) {
    const SectionRef& section = footer_.groups[missing[i]].section;
    bytes[i].resize(section.size);
    reads.push_back({section.offset, section.size, bytes[i].data()});
    stats_->add(kind, 1, section.size);
  }
  NIMBLE_RETURN_IF_ERROR(file_.read_many(reads));
  stats_->rounds.fetch_add(1, std::memory_order_relaxed);
  for (size_t i = 0; i < missing.size(); ++i) {
    auto made = open_group(missing[i], std::move(bytes[i]));
    if (!made) return in_group(missing[i], std::move(made).error());
    groups_.publish(missing[i], std::move(made).value());
  }
  return Status::ok();
}

Result<std::unique_ptr<LoadedGroup>> GroupCache::open_group(
    size_t group, std::vector<uint8_t> owned) const {
  const SectionRef& section = footer_.groups[group].section;
  const uint8_t* map = file_.mapped();
  const ByteSpan bytes =
      map != nullptr ? ByteSpan(map + section.offset, section.size) : owned;
  if (checksum64(bytes) != section.checksum) {
    return Status::corrupt("checksum does not match");
  }
  const uint64_t first = first_row(group);
  NIMBLE_ASSIGN_OR_RETURN(
      GroupView view,
      GroupView::open(bytes, plan_, first,
                      footer_.groups[group].end_row - first, file_.size()));
  if (footer_.cluster.has_value() != view.has_chunks()) {
    return Status::corrupt("key chunks and the footer's cluster key disagree");
  }
  NIMBLE_ASSIGN_OR_RETURN(
      ChunkDirectory chunks,
      ChunkDirectory::open(view.chunks().key_bytes, view.chunks().key_ends));
  return std::make_unique<LoadedGroup>(std::move(view), std::move(owned),
                                       std::move(chunks), first, shared_,
                                       &groups_);
}

}  // namespace nimble
