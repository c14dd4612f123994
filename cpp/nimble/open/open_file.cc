#include "nimble/open/open_file.h"

#include <algorithm>

#include "nimble/base/hash.h"

namespace nimble {

Status OpenFile::open(std::shared_ptr<const ReadableFile> file,
                      const ReaderOptions& options) {
  file_ = std::move(file);
  budget_ = std::make_unique<CacheBudget>(options.cache_bytes);
  NIMBLE_RETURN_IF_ERROR(read_tail());
  return prepare();
}

Status OpenFile::read_tail() {
  const uint64_t size = file_->size();
  const std::string& name = file_->name();
  if (size < kPostscriptSize + sizeof kMagic) {
    return Status::corrupt(name + ": not a nimblepy file: " +
                           std::to_string(size) + " bytes are too few");
  }
  std::vector<uint8_t> tail(std::min(size, kTailReadSize));
  const uint64_t begin = size - tail.size();
  file_->will_need(begin, tail.size());
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
  range_cache_ = std::make_unique<RangeCache>(budget_.get());
  // Shared structures and roots of secondary indexes are usually in the bytes
  // that were read with the footer.
  if (one_read && file_->mapped() == nullptr &&
      !(footer_.indexes.empty() && footer_.phrases.empty() &&
        footer_.shared_dictionaries.empty())) {
    range_cache_->put(
        begin, std::make_shared<const std::vector<uint8_t>>(std::move(tail)));
  }
  return Status::ok();
}

Status OpenFile::prepare() {
  plan_ = std::make_unique<StreamPlan>(footer_.schema);
  auto shared = FileShared::create(
      SharedFile{*file_, budget_.get(),
                 [this](const SectionRef& section, const std::string& what) {
                   return read_section(section, what);
                 }},
      footer_, *plan_);
  if (!shared) return std::move(shared).error().with_context(file_->name());
  shared_ = std::move(shared).value();
  groups_ = std::make_unique<GroupCache>(*file_, footer_, *plan_, shared_.get(),
                                         stats_.get(), budget_.get());
  zones_ =
      std::make_unique<SlotCache<Section>>(footer_.zones.size(), budget_.get());
  if (!footer_.cluster) return Status::ok();
  auto encoder = KeyEncoder::create(footer_.schema, footer_.cluster->columns);
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

size_t OpenFile::group_of(uint64_t row) const {
  const auto it = std::upper_bound(
      footer_.groups.begin(), footer_.groups.end(), row,
      [](uint64_t r, const GroupRef& g) { return r < g.end_row; });
  return static_cast<size_t>(it - footer_.groups.begin());
}

Result<std::vector<uint8_t>> OpenFile::read_section(
    const SectionRef& section, const std::string& what) const {
  std::vector<uint8_t> bytes(section.size);
  uint64_t at = 0;
  if (file_->mapped() == nullptr) {
    const RangeCache::Bytes cached =
        range_cache_->find(section.offset, section.size, &at);
    if (cached != nullptr) {
      const uint8_t* from = cached->data() + (section.offset - at);
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

Status OpenFile::check_section(const SectionRef& section, ByteSpan bytes,
                               const std::string& what) const {
  if (checksum64(bytes) == section.checksum) return Status::ok();
  return Status::corrupt(file_->name() + ": " + what + " at offset " +
                         std::to_string(section.offset) +
                         ": checksum does not match");
}

Result<OpenFile::Dictionary> OpenFile::dictionary(uint32_t node,
                                                  ReadDictionary read) const {
  const ReadLock lock(dictionaries_->mutex, *file_);
  if (const auto it = dictionaries_->values.find(node);
      it != dictionaries_->values.end()) {
    return it->second;
  }
  for (const NodeSection& ref : footer_.dictionaries) {
    if (ref.node != node) continue;
    auto values = read(*this, ref);
    if (!values) {
      return std::move(values).error().with_context(
          file_->name() + ": dictionary of column '" +
          plan_->node(node).field->name + "'");
    }
    dictionaries_->values[node] = *values;
    budget_->add_resident((*values)->values.memory_bytes());
    return values;
  }
  return Status::corrupt(file_->name() + ": column '" +
                         plan_->node(node).field->name +
                         "' has codes but no dictionary");
}

Result<OpenFile::SectionHandle> OpenFile::zone_map(size_t i) const {
  if (SectionHandle loaded = zones_->find(i)) return loaded;
  Result<SectionHandle> read = read_zone_map(i);
  budget_->shrink();
  return read;
}

Result<OpenFile::SectionHandle> OpenFile::read_zone_map(size_t i) const {
  const ReadLock lock(zones_->mutex(), *file_);
  if (SectionHandle loaded = zones_->find(i)) return loaded;
  NIMBLE_ASSIGN_OR_RETURN(std::vector<uint8_t> bytes,
                          read_section(footer_.zones[i].section, "zone map"));
  return zones_->publish(
      i, std::make_unique<const Section>(std::move(bytes), zones_->counter()));
}

}  // namespace nimble
