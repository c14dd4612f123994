#include "nimble/open/group_cache.h"

#include <algorithm>
#include <functional>
#include <thread>

#include "nimble/base/hash.h"

namespace nimble {

LoadedGroup::LoadedGroup(GroupView group, std::vector<uint8_t> bytes,
                         ChunkDirectory chunks, uint64_t first_row)
    : bytes_(std::move(bytes)),
      view_(std::move(group)),
      chunks_(std::move(chunks)),
      first_row_(first_row),
      decoders_(new std::atomic<const Decoder*>[view_.num_segments()]()),
      chunk_bits_(new std::atomic<uint64_t>[chunks_.size() / 64 + 1]()) {}

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
  ByteReader head(ref.head);
  auto made = open_decoder(&head, context);
  if (!made) {
    return std::move(made).error().with_context(
        "stream " + std::to_string(stream) + " segment at offset " +
        std::to_string(ref.offset));
  }
  // Another thread may have been quicker: its decoder is as good.
  const Decoder* fresh = std::move(made).value().release();
  const Decoder* expected = nullptr;
  if (!slot.compare_exchange_strong(expected, fresh,
                                    std::memory_order_acq_rel)) {
    delete fresh;
    return expected;
  }
  return fresh;
}

uint64_t LoadedGroup::memory_bytes() const {
  uint64_t n = sizeof *this + bytes_.capacity() + view_.memory_bytes() +
               chunks_.size() * 8;
  for (uint32_t i = 0; i < view_.num_segments(); ++i) {
    n += 8;
    if (const Decoder* d = decoders_[i].load(std::memory_order_acquire)) {
      n += d->memory_bytes();
    }
  }
  return n;
}

GroupCache::GroupCache(const ReadableFile& file, const FileFooter& footer,
                       const StreamPlan& plan, ReadStats* stats,
                       uint64_t capacity)
    : file_(file),
      footer_(footer),
      plan_(plan),
      stats_(stats),
      capacity_(capacity),
      groups_(footer.groups.size()),
      mutex_([this](bool was_held) { after_fork(was_held); }) {}

GroupCache::~GroupCache() {
  for (auto& g : groups_) delete g.load(std::memory_order_relaxed);
}

namespace {

struct ThisThread {
  size_t slot;
  GroupCache::Pin* innermost = nullptr;
};

ThisThread& this_thread() {
  static thread_local ThisThread t{
      std::hash<std::thread::id>()(std::this_thread::get_id())};
  return t;
}

}  // namespace

GroupCache::Pin::Pin(const GroupCache& cache)
    : cache_(cache), outer_(this_thread().innermost) {
  this_thread().innermost = this;
  enter();
}

GroupCache::Pin::~Pin() {
  leave();
  this_thread().innermost = outer_;
}

void GroupCache::Pin::enter() {
  ReaderCount& counts = cache_.readers_[this_thread().slot % kReaderCounts];
  // Sequentially consistent: a reader that is counted in an epoch began while
  // it was the present one, and sees no group that was dropped before that.
  for (;;) {
    const uint64_t epoch = cache_.epoch_.load(std::memory_order_seq_cst);
    count_ = &counts.readers[epoch % 2];
    count_->fetch_add(1, std::memory_order_seq_cst);
    if (cache_.epoch_.load(std::memory_order_seq_cst) == epoch) return;
    leave();
  }
}

// Readers of other threads are gone without having left. Groups that were
// dropped while one held the mutex are leaked.
void GroupCache::after_fork(bool was_held) {
  for (ReaderCount& r : readers_) {
    for (auto& count : r.readers) count.store(0);
  }
  for (Pin* p = this_thread().innermost; p != nullptr; p = p->outer_) {
    if (&p->cache_ == this) p->enter();
  }
  if (!was_held) return;
  abandon(&loaded_);
  abandon(&retired_);
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].load() != nullptr) loaded_.push_back(g);
  }
}

// A thread in load() uses no group but the one it loads, so a batch that loads
// many does not keep those that it has left behind. Where pins are nested, the
// outer may have one.
class GroupCache::Unpinned {
 public:
  explicit Unpinned(const GroupCache& cache) {
    for (Pin* p = this_thread().innermost; p != nullptr; p = p->outer_) {
      if (&p->cache_ != &cache) continue;
      if (pin_ != nullptr) {
        pin_ = nullptr;
        return;
      }
      pin_ = p;
    }
    if (pin_ != nullptr) pin_->leave();
  }
  ~Unpinned() {
    if (pin_ != nullptr) pin_->enter();
  }
  Unpinned(const Unpinned&) = delete;
  Unpinned& operator=(const Unpinned&) = delete;

 private:
  Pin* pin_ = nullptr;
};

Result<const LoadedGroup*> GroupCache::load(size_t group, ReadKind kind) const {
  const ReadLock lock(mutex_, file_);
  const Unpinned unpinned(*this);  // again pinned before others may drop it
  if (const LoadedGroup* g = groups_[group].load(std::memory_order_acquire)) {
    return g;
  }
  auto made = read_group(group, kind);
  if (!made) return in_group(group, std::move(made).error());
  const LoadedGroup* g = publish(group, std::move(made).value());
  evict(group);
  return g;
}

const LoadedGroup* GroupCache::publish(
    size_t group, std::unique_ptr<LoadedGroup> made) const {
  const LoadedGroup* g = made.release();
  groups_[group].store(g, std::memory_order_seq_cst);
  loaded_.push_back(group);
  return g;
}

Status GroupCache::in_group(size_t group, Status status) const {
  return std::move(status).with_context(
      file_.name() + ": stripe group " + std::to_string(group) + " at offset " +
      std::to_string(footer_.groups[group].section.offset));
}

Status GroupCache::load_together(std::span<const size_t> groups,
                                 ReadKind kind) const {
  if (file_.mapped() != nullptr) return Status::ok();
  const ReadLock lock(mutex_, file_);
  const Unpinned unpinned(*this);
  std::vector<size_t> missing;
  uint64_t size = 0;
  for (const size_t g : groups) {
    if (groups_[g].load(std::memory_order_acquire) != nullptr) continue;
    size += footer_.groups[g].section.size;
    if (size > capacity_ / 2) break;
    missing.push_back(g);
  }
  if (missing.size() < 2) return Status::ok();  // get() does as well
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
    publish(missing[i], std::move(made).value());
  }
  evict(missing.back());
  return Status::ok();
}

Result<std::unique_ptr<LoadedGroup>> GroupCache::read_group(
    size_t group, ReadKind kind) const {
  const SectionRef& section = footer_.groups[group].section;
  std::vector<uint8_t> owned;
  if (file_.mapped() == nullptr) {
    owned.resize(section.size);
    NIMBLE_RETURN_IF_ERROR(
        file_.read_at({section.offset, section.size, owned.data()}));
  }
  stats_->add(kind, 1, section.size);
  stats_->rounds.fetch_add(1, std::memory_order_relaxed);
  return open_group(group, std::move(owned));
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
                                       std::move(chunks), first);
}

void GroupCache::evict(size_t keep) const {
  free_retired();
  uint64_t used = 0;
  for (const size_t g : loaded_) {
    used += groups_[g].load(std::memory_order_relaxed)->memory_bytes();
  }
  while (used > capacity_ && loaded_.size() > 1) {
    const size_t oldest = loaded_.front() == keep ? loaded_[1] : loaded_[0];
    loaded_.erase(std::find(loaded_.begin(), loaded_.end(), oldest));
    const LoadedGroup* g =
        groups_[oldest].exchange(nullptr, std::memory_order_seq_cst);
    used -= g->memory_bytes();
    retired_.push_back({epoch_.load(std::memory_order_seq_cst),
                        std::unique_ptr<const LoadedGroup>(g)});
  }
  free_retired();
}

void GroupCache::free_retired() const {
  for (int step = 0; step < 2 && !retired_.empty(); ++step) {
    const uint64_t epoch = epoch_.load(std::memory_order_seq_cst);
    // Readers of the epoch before, whose count the next one takes over.
    uint32_t readers = 0;
    for (const ReaderCount& r : readers_) {
      readers += r.readers[(epoch + 1) % 2].load(std::memory_order_seq_cst);
    }
    if (readers > 0) break;  // they may have a group that waits for a next load
    epoch_.store(epoch + 1, std::memory_order_seq_cst);
  }
  const uint64_t now = epoch_.load(std::memory_order_seq_cst);
  const auto kept =
      std::find_if(retired_.begin(), retired_.end(),
                   [now](const Retired& r) { return r.epoch + 2 > now; });
  retired_.erase(retired_.begin(), kept);
}

uint64_t GroupCache::memory_bytes() const {
  const ReadLock lock(mutex_, file_);
  uint64_t used = 0;
  for (const size_t g : loaded_) {
    used += groups_[g].load(std::memory_order_relaxed)->memory_bytes();
  }
  for (const Retired& r : retired_) used += r.group->memory_bytes();
  return used;
}

}  // namespace nimble
