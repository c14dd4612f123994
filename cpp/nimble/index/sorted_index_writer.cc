#include "nimble/index/sorted_index_writer.h"

#include "nimble/format/flat_buffer.h"
#include "sorted_index_generated.h"

namespace nimble {
namespace {

// Number of keys added, and of entries written, at a time.
constexpr size_t kBatch = 4096;

// The rows make all entries distinct. So the order can be checked strictly,
// which costs nothing extra.
ClusterIndexOptions chunk_options(const SortedIndexOptions& o) {
  ClusterIndexOptions out;
  out.chunk_keys = o.chunk_keys;
  out.chunk = o.chunk;
  out.unique = true;
  return out;
}

uint32_t width_of_rows(uint64_t num_rows) {
  const uint64_t last = num_rows == 0 ? 0 : num_rows - 1;
  return std::max<uint32_t>(
      1, static_cast<uint32_t>(div_ceil(bit_width_of(last), 8)));
}

}  // namespace

SortedIndexWriter::SortedIndexWriter(const SortedIndexOptions& options)
    : options_(options),
      sorter_(options.memory_bytes, options.spill_directory, KeyRows(),
              options.poll),
      chunks_(chunk_options(options)) {}

Status SortedIndexWriter::add(const KeyBuffer& keys, size_t begin, size_t end) {
  while (begin < end) {
    const size_t n = std::min(kBatch, end - begin);
    sorter_.batch().add(keys, begin, begin + n, num_rows_);
    NIMBLE_RETURN_IF_ERROR(sorter_.added());
    begin += n;
    num_rows_ += n;
  }
  return Status::ok();
}

Result<std::vector<uint8_t>> SortedIndexWriter::finish(
    const SectionSink& sink) {
  const uint32_t row_width = width_of_rows(num_rows_);
  const auto consume = [&](const KeyRows& sorted) -> Status {
    const size_t width = sorted.fixed_width();
    KeyBuffer entries(width == 0 ? 0 : width + row_width);
    ByteBuffer entry;
    for (size_t i = 0; i < sorted.size(); ++i) {
      entry.clear();
      entry.put_bytes(sorted.key(i));
      store_be(entry.extend(row_width), sorted.row(i), row_width);
      entries.push_back(entry.span());
      if (entries.size() < kBatch && i + 1 < sorted.size()) continue;
      NIMBLE_RETURN_IF_ERROR(add_entries(entries, sink));
      entries.clear();
    }
    return Status::ok();
  };
  NIMBLE_RETURN_IF_ERROR(sorter_.finish(consume));
  NIMBLE_RETURN_IF_ERROR(write_group(sink));
  return serialize_root(row_width);
}

Status SortedIndexWriter::add_entries(const KeyBuffer& entries,
                                      const SectionSink& sink) {
  const uint64_t group_entries = std::max<uint64_t>(
      1, uint64_t{options_.chunk_keys} * options_.chunks_per_group);
  for (size_t at = 0; at < entries.size();) {
    const auto n = static_cast<size_t>(
        std::min<uint64_t>(entries.size() - at, group_entries - in_group_));
    NIMBLE_RETURN_IF_ERROR(chunks_.add(entries, at, at + n));
    at += n;
    in_group_ += n;
    if (in_group_ < group_entries) continue;
    NIMBLE_RETURN_IF_ERROR(write_group(sink));
    in_group_ = 0;
  }
  return Status::ok();
}

Status SortedIndexWriter::write_group(const SectionSink& sink) {
  const GroupKeys keys = chunks_.finish_group();
  if (keys.chunks.empty()) return Status::ok();
  NIMBLE_ASSIGN_OR_RETURN(const SectionRef stream, sink(keys.blob.span()));
  std::vector<uint64_t> end_rows, ends;
  uint64_t rows = 0, bytes = 0;
  for (const KeyChunkInfo& c : keys.chunks) {
    end_rows.push_back(rows += c.num_keys);
    ends.push_back(bytes += c.size);
  }
  std::vector<uint32_t> key_ends;
  for (size_t i = 0; i < keys.boundaries.size(); ++i) {
    if (keys.boundaries.offset(i + 1) > UINT32_MAX) {
      return Status::unsupported("an index's boundary keys exceed 4 GiB");
    }
    key_ends.push_back(static_cast<uint32_t>(keys.boundaries.offset(i + 1)));
  }
  flatbuffers::FlatBufferBuilder b;
  const auto end_rows_v = b.CreateVector(end_rows);
  const auto ends_v = b.CreateVector(ends);
  const auto bytes_v =
      b.CreateVector(keys.boundaries.data(), keys.boundaries.num_bytes());
  const auto key_ends_v = b.CreateVector(key_ends);
  b.Finish(fb::CreateSortedGroup(
      b, fb::CreateChunkDirectory(b, end_rows_v, ends_v, stream.offset, bytes_v,
                                  key_ends_v)));
  NIMBLE_ASSIGN_OR_RETURN(const SectionRef section,
                          sink({b.GetBufferPointer(), b.GetSize()}));
  if (groups_.empty()) first_entry_.put_bytes(keys.first_key.span());
  groups_.push_back({section, num_entries_ += keys.num_keys});
  const ByteSpan last = keys.last_key.span();
  key_bytes_.insert(key_bytes_.end(), last.begin(), last.end());
  if (key_bytes_.size() > UINT32_MAX) {
    return Status::unsupported("an index's boundary keys exceed 4 GiB");
  }
  key_ends_.push_back(static_cast<uint32_t>(key_bytes_.size()));
  return Status::ok();
}

std::vector<uint8_t> SortedIndexWriter::serialize_root(
    uint32_t row_width) const {
  flatbuffers::FlatBufferBuilder b;
  std::vector<fb::GroupRef> refs;
  for (const Group& g : groups_) {
    refs.emplace_back(to_fb(g.section), g.end_place);
  }
  const auto groups_v = b.CreateVectorOfStructs(refs);
  const auto bytes_v = b.CreateVector(key_bytes_);
  const auto ends_v = b.CreateVector(key_ends_);
  const auto first_v = b.CreateVector(first_entry_.data(), first_entry_.size());
  fb::FinishSortedRootBuffer(
      b, fb::CreateSortedRoot(b, static_cast<uint8_t>(row_width), num_entries_,
                              groups_v, bytes_v, ends_v, first_v));
  return {b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize()};
}

}  // namespace nimble
