#include "nimble/cursor/cluster_index.h"

#include "nimble/format/constants.h"

namespace nimble {
namespace {

// Approximate number of bytes that a search for an absent key reads if the file
// is not mapped.
constexpr uint64_t kBytesPerAbsentKey = 16 * 1024;

}  // namespace

Result<const BloomFilter*> ClusterIndex::bloom(uint64_t probes) const {
  const auto& cluster = file_.footer().cluster;
  if (!cluster || cluster->bloom.size == 0) return nullptr;
  if (const auto* b = bloom_.load(std::memory_order_acquire)) return b;
  const SectionRef& section = cluster->bloom;
  const uint64_t asked =
      bloom_probes_.fetch_add(probes, std::memory_order_relaxed) + probes;
  const uint8_t* map = file_.file().mapped();
  if (map == nullptr && asked < section.size / kBytesPerAbsentKey) {
    return nullptr;
  }
  const ReadLock lock(mutex_, file_.file());
  if (const auto* b = bloom_.load(std::memory_order_acquire)) return b;
  ByteSpan bytes;
  if (map != nullptr) {
    bytes = {map + section.offset, section.size};
    NIMBLE_RETURN_IF_ERROR(file_.check_section(section, bytes, "Bloom filter"));
    file_.stats()->add(ReadKind::kIndex, 1, section.size);
  } else {
    NIMBLE_ASSIGN_OR_RETURN(std::vector<uint8_t> read,
                            file_.read_section(section, "Bloom filter"));
    if (const auto* b = bloom_.load(std::memory_order_acquire)) return b;
    bloom_bytes_ = std::move(read);
    bytes = bloom_bytes_;
  }
  NIMBLE_ASSIGN_OR_RETURN(bloom_filter_, BloomFilter::open(bytes));
  file_.budget()->add_resident(bloom_bytes_.size());
  bloom_.store(&*bloom_filter_, std::memory_order_release);
  return &*bloom_filter_;
}

Result<const RowKeys*> ClusterIndex::row_keys() const {
  if ((file_.postscript().required_features & kFeatureSampledKeys) == 0 ||
      !file_.footer().cluster) {
    return static_cast<const RowKeys*>(nullptr);
  }
  if (const auto* k = row_keys_.load(std::memory_order_acquire)) return k;
  const ReadLock lock(mutex_, file_.file());
  if (row_keys_owner_ == nullptr) {
    NIMBLE_ASSIGN_OR_RETURN(
        auto made, RowKeys::create(file_, file_.footer().cluster->columns));
    if (const auto* k = row_keys_.load(std::memory_order_acquire)) return k;
    row_keys_owner_ = std::move(made);
    row_keys_.store(row_keys_owner_.get(), std::memory_order_release);
  }
  return row_keys_owner_.get();
}

// Values that were published before the fork remain valid. A value that another
// thread was creating is dropped and created again.
void ClusterIndex::after_fork(bool was_held) {
  if (!was_held) return;
  if (bloom_.load() == nullptr) {
    reinit_leaking(&bloom_filter_);
    reinit_leaking(&bloom_bytes_);
  }
  if (row_keys_.load() == nullptr) reinit_leaking(&row_keys_owner_);
}

}  // namespace nimble
