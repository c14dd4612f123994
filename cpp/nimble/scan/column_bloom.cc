#include "nimble/scan/column_bloom.h"

#include <algorithm>

#include "column_bloom_generated.h"
#include "nimble/base/hash.h"
#include "nimble/format/flat_buffer.h"
#include "nimble/open/section_fetch.h"

namespace nimble {

Result<std::shared_ptr<const ColumnBlooms>> ColumnBlooms::open(
    const OpenFile& file, const SectionRef& section) {
  NIMBLE_ASSIGN_OR_RETURN(const std::vector<uint8_t> root,
                          file.read_section(section, "column Bloom filters"));
  std::shared_ptr<ColumnBlooms> out(new ColumnBlooms(file));
  if (Status s = out->parse(root); !s) {
    return std::move(s).with_context(file.file().name() +
                                     ": column Bloom filters");
  }
  return std::shared_ptr<const ColumnBlooms>(std::move(out));
}

Status ColumnBlooms::parse(const std::vector<uint8_t>& root) {
  NIMBLE_ASSIGN_OR_RETURN(const auto view,
                          FlatBufferView<fb::ColumnBlooms>::open(
                              root, fb::ColumnBloomsIdentifier()));
  const auto* columns = view->columns();
  if (columns == nullptr) return Status::ok();
  for (const fb::ColumnBloom* c : *columns) {
    Column column;
    column.node = c->node();
    if (!is_aligned(c->end_rows()) || !is_aligned(c->filters())) {
      return Status::corrupt("its arrays are not aligned");
    }
    if (c->end_rows() != nullptr) {
      column.end_rows.assign(c->end_rows()->begin(), c->end_rows()->end());
    }
    column.filters = from_fb(c->filters());
    for (const SectionRef& s : column.filters) column.size_bytes += s.size;
    NIMBLE_RETURN_IF_ERROR(check(column));
    column.verified.reset(new std::atomic<bool>[column.filters.size()]());
    columns_.push_back(std::move(column));
  }
  return Status::ok();
}

Status ColumnBlooms::check(const Column& column) const {
  uint64_t last = 0;
  for (const uint64_t end : column.end_rows) {
    if (end <= last) return Status::corrupt("a stripe has no rows");
    last = end;
  }
  if (column.filters.size() != column.end_rows.size() ||
      last != file_.num_rows() || column.node >= file_.plan().nodes().size()) {
    return Status::corrupt(std::to_string(column.filters.size()) +
                           " filters of " + std::to_string(last) +
                           " rows of node " + std::to_string(column.node));
  }
  for (const SectionRef& s : column.filters) {
    if (in_bounds(s.offset, s.size, file_.postscript().footer_offset)) continue;
    return Status::corrupt("a filter of " + std::to_string(s.size) +
                           " bytes at offset " + std::to_string(s.offset) +
                           " lies outside the data");
  }
  return Status::ok();
}

const ColumnBlooms::Column* ColumnBlooms::column_of(uint32_t node) const {
  for (const Column& c : columns_) {
    if (c.node == node) return &c;
  }
  return nullptr;
}

Result<BloomFilter> ColumnBlooms::filter(const Column& column, size_t stripe,
                                         RangeCache::Bytes* held) const {
  const SectionRef& section = column.filters[stripe];
  ByteSpan bytes;
  if (const uint8_t* map = file_.file().mapped()) {
    bytes = {map + section.offset, section.size};
    if (!column.verified[stripe].load(std::memory_order_acquire)) {
      NIMBLE_RETURN_IF_ERROR(
          file_.check_section(section, bytes, "Bloom filter"));
      file_.stats()->add(ReadKind::kIndex, 1, section.size);
      column.verified[stripe].store(true, std::memory_order_release);
    }
  } else {
    std::vector<RangeCache::Bytes> fetched;
    NIMBLE_RETURN_IF_ERROR(
        fetch_sections(file_, {&section, 1}, "Bloom filter", &fetched));
    *held = std::move(fetched[0]);
    bytes = **held;
  }
  return BloomFilter::open(bytes);
}

Result<std::vector<RowRange>> ColumnBlooms::prune(
    uint32_t node, const KeyBuffer& keys,
    const std::vector<RowRange>& within) const {
  const Column* const column = column_of(node);
  const auto& sizes = file_.footer().node_bytes;
  if (column == nullptr ||
      (file_.file().mapped() == nullptr && node < sizes.size() &&
       column->size_bytes > sizes[node])) {
    return within;
  }
  std::vector<uint64_t> hashes(keys.size());
  for (size_t i = 0; i < hashes.size(); ++i) {
    hashes[i] = key_hash64(keys.key(i));
  }
  const auto& ends = column->end_rows;
  std::vector<RowRange> out;
  for (RowRange range : within) {
    while (!range.empty()) {
      const auto stripe = static_cast<size_t>(
          std::upper_bound(ends.begin(), ends.end(), range.begin) -
          ends.begin());
      // the range ends after the file's last row
      if (stripe == ends.size()) break;
      const uint64_t end = std::min(range.end, ends[stripe]);
      RangeCache::Bytes held;
      NIMBLE_ASSIGN_OR_RETURN(const BloomFilter bits,
                              filter(*column, stripe, &held));
      if (std::any_of(hashes.begin(), hashes.end(),
                      [&](uint64_t h) { return bits.might_contain(h); })) {
        out.push_back({range.begin, end});
      }
      range.begin = end;
    }
  }
  return merge_ranges(std::move(out));
}

std::vector<uint32_t> ColumnBlooms::nodes() const {
  std::vector<uint32_t> out;
  for (const Column& c : columns_) out.push_back(c.node);
  return out;
}

Status ColumnBlooms::check_keys(uint32_t node, const KeyBuffer& keys,
                                uint64_t first_row) const {
  const Column& column = *column_of(node);
  const auto& ends = column.end_rows;
  auto stripe = static_cast<size_t>(
      std::upper_bound(ends.begin(), ends.end(), first_row) - ends.begin());
  size_t at = 0;
  for (; at < keys.size() && stripe < ends.size(); ++stripe) {
    RangeCache::Bytes held;
    NIMBLE_ASSIGN_OR_RETURN(const BloomFilter bits,
                            filter(column, stripe, &held));
    for (; at < keys.size() && first_row + at < ends[stripe]; ++at) {
      if (bits.might_contain(key_hash64(keys.key(at)))) continue;
      return Status::corrupt(file_.file().name() + ": row " +
                             std::to_string(first_row + at) +
                             ": the stripe's Bloom filter of column node " +
                             std::to_string(node) + " lacks the value");
    }
  }
  return Status::ok();
}

}  // namespace nimble
