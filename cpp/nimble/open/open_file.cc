#include "nimble/open/open_file.h"

#include <algorithm>

#include "nimble/base/hash.h"

namespace nimble {

Status OpenFile::open(std::shared_ptr<const ReadableFile> file,
                      const ReaderOptions& options) {
  file_ = std::move(file);
  NIMBLE_RETURN_IF_ERROR(read_tail(options.cache_bytes));
  return prepare(options.cache_bytes);
}

Status OpenFile::read_tail(uint64_t cache_bytes) {
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
  range_cache_ = std::make_unique<RangeCache>(cache_bytes);
  // Roots of secondary indexes mostly lie in what has been read.
  if (one_read && !footer_.indexes.empty() && file_->mapped() == nullptr) {
    range_cache_->put(
        begin, std::make_shared<const std::vector<uint8_t>>(std::move(tail)));
  }
  return Status::ok();
}

Status OpenFile::prepare(uint64_t cache_bytes) {
  plan_ = std::make_unique<StreamPlan>(footer_.schema);
  groups_ = std::make_unique<GroupCache>(*file_, footer_, *plan_, stats_.get(),
                                         cache_bytes);
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

Status OpenFile::check_section(const SectionRef& section, ByteSpan bytes,
                               const std::string& what) const {
  if (checksum64(bytes) == section.checksum) return Status::ok();
  return Status::corrupt(file_->name() + ": " + what + " at offset " +
                         std::to_string(section.offset) +
                         ": checksum does not match");
}

Result<OpenFile::Dictionary> OpenFile::dictionary(uint32_t node,
                                                  ReadDictionary read) const {
  const ReadLock lock(kept_->mutex, *file_);
  if (const auto it = kept_->dictionaries.find(node);
      it != kept_->dictionaries.end()) {
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
    kept_->dictionaries[node] = *values;
    return values;
  }
  return Status::corrupt(file_->name() + ": column '" +
                         plan_->node(node).field->name +
                         "' has codes but no dictionary");
}

Result<std::shared_ptr<const std::vector<uint8_t>>> OpenFile::zone_bytes(
    const NodeSection& ref) const {
  const ReadLock lock(kept_->mutex, *file_);
  auto& slot = kept_->zones[ref.node];
  if (slot == nullptr) {
    NIMBLE_ASSIGN_OR_RETURN(std::vector<uint8_t> bytes,
                            read_section(ref.section, "zone map"));
    slot = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
  }
  return slot;
}

uint64_t OpenFile::memory_bytes() const {
  return groups_->memory_bytes() + range_cache_->memory_bytes();
}

}  // namespace nimble
