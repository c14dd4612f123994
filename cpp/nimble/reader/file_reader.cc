#include "nimble/reader/file_reader.h"

#include <algorithm>

#include "nimble/base/hash.h"
#include "nimble/lookup/index_lookup.h"
#include "nimble/lookup/row_keys.h"
#include "nimble/scan/column_bloom.h"
#include "nimble/stripe/column_reader.h"
#include "nimble/write/column_bloom_writer.h"

namespace nimble {
namespace {

// About what looking in vain for a key reads of a file that is not mapped.
constexpr uint64_t kBytesAbsentKey = 16 * 1024;

}  // namespace

Result<std::shared_ptr<const FileReader>> FileReader::open(
    std::shared_ptr<const ReadableFile> file, const ReaderOptions& options) {
  std::shared_ptr<FileReader> reader(new FileReader());
  reader->file_ = std::move(file);
  reader->options_ = options;
  NIMBLE_RETURN_IF_ERROR(reader->read_tail());
  NIMBLE_RETURN_IF_ERROR(reader->prepare());
  return std::shared_ptr<const FileReader>(std::move(reader));
}

Status FileReader::read_tail() {
  const uint64_t size = file_->size();
  const std::string& name = file_->name();
  if (size < kPostscriptSize + sizeof kMagic) {
    return Status::corrupt(name + ": not a nimblepy file: " +
                           std::to_string(size) + " bytes are too few");
  }
  std::vector<uint8_t> tail(std::min(size, kTailReadSize));
  const uint64_t begin = size - tail.size();
  NIMBLE_RETURN_IF_ERROR(file_->read_at({begin, tail.size(), tail.data()}));
  stats_->add(ReadKind::kOpen, 1, tail.size());
  stats_->rounds.fetch_add(1, std::memory_order_relaxed);
  const ByteSpan last = ByteSpan(tail).last(kPostscriptSize);
  NIMBLE_ASSIGN_OR_RETURN(postscript_, Postscript::parse(last, size, name));
  ByteSpan footer;
  const bool one_read = postscript_.footer_offset >= begin;
  if (one_read) {
    footer = ByteSpan(tail).subspan(postscript_.footer_offset - begin,
                                    postscript_.footer_size);
  } else {
    tail.resize(postscript_.footer_size);
    NIMBLE_RETURN_IF_ERROR(
        file_->read_at({postscript_.footer_offset, tail.size(), tail.data()}));
    stats_->add(ReadKind::kOpen, 1, tail.size());
    stats_->rounds.fetch_add(1, std::memory_order_relaxed);
    footer = tail;
  }
  if (checksum64(footer) != postscript_.footer_checksum) {
    return Status::corrupt(name + ": footer at offset " +
                           std::to_string(postscript_.footer_offset) +
                           ": checksum does not match");
  }
  auto parsed = FileFooter::parse(footer, postscript_.footer_offset);
  if (!parsed) return std::move(parsed).error().with_context(name);
  footer_ = std::move(parsed).value();
  range_cache_ = std::make_unique<RangeCache>(options_.cache_bytes);
  // Roots of secondary indexes mostly lie in what has been read.
  if (one_read && !footer_.indexes.empty() && file_->mapped() == nullptr) {
    range_cache_->put(
        begin, std::make_shared<const std::vector<uint8_t>>(std::move(tail)));
  }
  return Status::ok();
}

Status FileReader::prepare() {
  plan_ = std::make_unique<StreamPlan>(footer_.schema);
  groups_ = std::make_unique<GroupCache>(*file_, footer_, *plan_, stats_.get(),
                                         options_.cache_bytes);
  for (size_t i = 0; i < footer_.indexes.size(); ++i) {
    indexes_.push_back(std::make_unique<OpenIndex>());
  }
  if (!footer_.cluster) return Status::ok();
  std::vector<KeyColumnSpec> specs;
  for (const KeyColumnRef& c : footer_.cluster->columns) {
    specs.push_back({c.path, c.order});
  }
  auto encoder = KeyEncoder::create(footer_.schema, specs);
  if (!encoder) {
    return Status::corrupt(
        file_->name() + ": footer: " + std::string(encoder.error().message()));
  }
  encoder_ = std::move(encoder).value();
  NIMBLE_ASSIGN_OR_RETURN(group_boundaries_,
                          ChunkDirectory::open(footer_.cluster->key_bytes,
                                               footer_.cluster->key_ends));
  return Status::ok();
}

size_t FileReader::group_of(uint64_t row) const {
  const auto it = std::upper_bound(
      footer_.groups.begin(), footer_.groups.end(), row,
      [](uint64_t r, const GroupRef& g) { return r < g.end_row; });
  return static_cast<size_t>(it - footer_.groups.begin());
}

Result<std::vector<uint8_t>> FileReader::read_section(
    const SectionRef& section, const std::string& what) const {
  std::vector<uint8_t> bytes(section.size);
  uint64_t at = 0;
  if (file_->mapped() == nullptr) {
    const RangeCache::Bytes known =
        range_cache_->find(section.offset, section.size, &at);
    if (known != nullptr) {
      const uint8_t* from = known->data() + (section.offset - at);
      bytes.assign(from, from + section.size);
      NIMBLE_RETURN_IF_ERROR(check_section(section, bytes, what));
      return bytes;
    }
  }
  NIMBLE_RETURN_IF_ERROR(
      file_->read_at({section.offset, section.size, bytes.data()}));
  stats_->add(ReadKind::kIndex, 1, section.size);
  stats_->rounds.fetch_add(1, std::memory_order_relaxed);
  NIMBLE_RETURN_IF_ERROR(check_section(section, bytes, what));
  return bytes;
}

Status FileReader::check_section(const SectionRef& section, ByteSpan bytes,
                                 const std::string& what) const {
  if (checksum64(bytes) == section.checksum) return Status::ok();
  return Status::corrupt(file_->name() + ": " + what + " at offset " +
                         std::to_string(section.offset) +
                         ": checksum does not match");
}

Result<const BloomFilter*> FileReader::bloom(uint64_t probes) const {
  if (!footer_.cluster || footer_.cluster->bloom.size == 0) return nullptr;
  if (const auto* b = lazy_->bloom.load(std::memory_order_acquire)) return b;
  const SectionRef& section = footer_.cluster->bloom;
  const uint64_t asked =
      lazy_->bloom_probes.fetch_add(probes, std::memory_order_relaxed) + probes;
  if (file_->mapped() == nullptr && asked < section.size / kBytesAbsentKey) {
    return nullptr;
  }
  const ReadLock lock(lazy_->mutex, *file_);
  if (const auto* b = lazy_->bloom.load(std::memory_order_acquire)) return b;
  ByteSpan bytes;
  if (const uint8_t* map = file_->mapped()) {
    bytes = {map + section.offset, section.size};
    NIMBLE_RETURN_IF_ERROR(check_section(section, bytes, "Bloom filter"));
    stats_->add(ReadKind::kIndex, 1, section.size);
  } else {
    NIMBLE_ASSIGN_OR_RETURN(lazy_->bloom_bytes,
                            read_section(section, "Bloom filter"));
    bytes = lazy_->bloom_bytes;
  }
  NIMBLE_ASSIGN_OR_RETURN(lazy_->bloom_filter, BloomFilter::open(bytes));
  lazy_->bloom.store(&*lazy_->bloom_filter, std::memory_order_release);
  return &*lazy_->bloom_filter;
}

// What was published stays; the rest is read again.
void FileReader::Lazy::after_fork(bool was_held) {
  if (!was_held) return;
  if (bloom.load() == nullptr) {
    abandon(&bloom_filter);
    abandon(&bloom_bytes);
  }
  if (cluster_keys.load() == nullptr) abandon(&cluster_keys_owner);
  abandon(&dictionaries);
  abandon(&zones);
  abandon(&column_blooms);
}

Result<const IndexLookup*> FileReader::index(size_t i) const {
  OpenIndex& slot = *indexes_[i];
  if (const auto* ready = slot.ready.load(std::memory_order_acquire)) {
    return ready;
  }
  const ReadLock lock(slot.mutex, *file_);
  if (slot.owner == nullptr) {
    NIMBLE_ASSIGN_OR_RETURN(slot.owner, open_secondary_lookup(*this, i));
    slot.ready.store(slot.owner.get(), std::memory_order_release);
  }
  return slot.owner.get();
}

Result<const RowKeys*> FileReader::cluster_keys() const {
  if ((postscript_.required_features & kFeatureSampledKeys) == 0 ||
      !footer_.cluster) {
    return static_cast<const RowKeys*>(nullptr);
  }
  if (const auto* k = lazy_->cluster_keys.load(std::memory_order_acquire)) {
    return k;
  }
  const ReadLock lock(lazy_->mutex, *file_);
  if (const auto* k = lazy_->cluster_keys.load(std::memory_order_acquire)) {
    return k;
  }
  NIMBLE_ASSIGN_OR_RETURN(lazy_->cluster_keys_owner,
                          RowKeys::create(*this, footer_.cluster->columns));
  lazy_->cluster_keys.store(lazy_->cluster_keys_owner.get(),
                            std::memory_order_release);
  return lazy_->cluster_keys_owner.get();
}

Result<std::shared_ptr<const DictionaryValues>> FileReader::dictionary(
    uint32_t node) const {
  const ReadLock lock(lazy_->mutex, *file_);
  if (const auto it = lazy_->dictionaries.find(node);
      it != lazy_->dictionaries.end()) {
    return it->second;
  }
  for (const NodeSection& ref : footer_.dictionaries) {
    if (ref.node != node) continue;
    auto values = read_dictionary(ref);
    if (!values) {
      return std::move(values).error().with_context(
          file_->name() + ": dictionary of column '" +
          plan_->node(node).field->name + "'");
    }
    lazy_->dictionaries[node] = *values;
    return values;
  }
  return Status::corrupt(file_->name() + ": column '" +
                         plan_->node(node).field->name +
                         "' has codes but no dictionary");
}

Result<std::shared_ptr<const DictionaryValues>> FileReader::read_dictionary(
    const NodeSection& ref) const {
  if (ref.node >= plan_->nodes().size() ||
      plan_->node(ref.node).field->layout != Layout::kDictionary) {
    return Status::corrupt("a dictionary of a column that has none");
  }
  const Field& field = plan_->node(ref.node).field->dictionary[0];
  auto out = std::make_shared<DictionaryValues>(field);
  if (ref.rows == 0) return std::shared_ptr<const DictionaryValues>(out);
  const StreamPlan plan(field);
  NIMBLE_ASSIGN_OR_RETURN(std::vector<uint8_t> bytes,
                          read_section(ref.section, "dictionary"));
  NIMBLE_ASSIGN_OR_RETURN(
      GroupView view, GroupView::open(bytes, plan, 0, ref.rows, file_->size()));
  NIMBLE_ASSIGN_OR_RETURN(ChunkDirectory none, ChunkDirectory::open({}, {}));
  const LoadedGroup group(std::move(view), {}, std::move(none), 0);
  if (group.view().stripes().size() != 1) {
    return Status::corrupt("not one stripe of values");
  }
  FetchedBodies fetched(*file_, range_cache_.get(), stats_.get());
  const StripeReader reader(*this, plan, group, group.view().stripes()[0],
                            &fetched);
  NIMBLE_RETURN_IF_ERROR(reader.read_range(0, 0, ref.rows, &out->values));
  return std::shared_ptr<const DictionaryValues>(out);
}

Result<std::shared_ptr<const ColumnBlooms>> FileReader::column_blooms() const {
  const ReadLock lock(lazy_->mutex, *file_);
  for (const OptionalSection& s : footer_.optional_sections) {
    if (s.name != kColumnBloomSection || lazy_->column_blooms != nullptr)
      continue;
    NIMBLE_ASSIGN_OR_RETURN(lazy_->column_blooms,
                            ColumnBlooms::open(*this, s.section));
  }
  return lazy_->column_blooms;
}

Result<std::shared_ptr<const std::vector<uint8_t>>> FileReader::zone_bytes(
    const NodeSection& ref) const {
  const ReadLock lock(lazy_->mutex, *file_);
  auto& slot = lazy_->zones[ref.node];
  if (slot == nullptr) {
    NIMBLE_ASSIGN_OR_RETURN(std::vector<uint8_t> bytes,
                            read_section(ref.section, "zone map"));
    slot = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
  }
  return slot;
}

uint64_t FileReader::memory_bytes() const {
  uint64_t total = groups_->memory_bytes() + range_cache_->memory_bytes();
  for (const auto& slot : indexes_) {
    const IndexLookup* index = slot->ready.load(std::memory_order_acquire);
    if (index != nullptr) total += index->memory_bytes();
  }
  return total;
}

}  // namespace nimble
