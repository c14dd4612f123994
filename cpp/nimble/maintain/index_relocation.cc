#include "nimble/maintain/index_relocation.h"

#include <algorithm>

#include "hash_index_generated.h"
#include "nimble/format/flat_buffer.h"
#include "nimble/format/group.h"
#include "nimble/index/vector/vector_layout.h"
#include "sorted_index_generated.h"

namespace nimble {
namespace {

// Overwrites a value in the copy of a FlatBuffer that a FlatBufferView owns.
template <class T>
void overwrite(const void* place, const T& value) {
  std::memcpy(const_cast<void*>(place), &value, sizeof value);
}

Status check_range(const FileReader& file, uint64_t offset, uint64_t size) {
  if (in_bounds(offset, size, file.postscript().footer_offset)) {
    return Status::ok();
  }
  return Status::corrupt(file.file().name() + ": " + std::to_string(size) +
                         " bytes of an index at offset " +
                         std::to_string(offset) + " lie outside the data");
}

Result<std::vector<uint8_t>> read_part(const FileReader& file,
                                       const SectionRef& section) {
  NIMBLE_RETURN_IF_ERROR(check_range(file, section.offset, section.size));
  return file.read_section(section, "part of an index");
}

Status move_sections(const FileReader& file, const SectionSink& sink,
                     const flatbuffers::Vector<const fb::Section*>* sections) {
  if (sections == nullptr) return Status::ok();
  for (const fb::Section* s : *sections) {
    if (s->size() == 0) continue;
    NIMBLE_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes,
                            read_part(file, from_fb(*s)));
    NIMBLE_ASSIGN_OR_RETURN(const SectionRef moved, sink(bytes));
    overwrite(s, to_fb(moved));
  }
  return Status::ok();
}

Result<std::vector<uint8_t>> move_hash(const FileReader& file, ByteSpan root,
                                       const SectionSink& sink) {
  NIMBLE_ASSIGN_OR_RETURN(
      const auto index,
      FlatBufferView<fb::HashIndex>::open(root, fb::HashIndexIdentifier()));
  if (!is_aligned(index->partitions()) || !is_aligned(index->bloom_parts())) {
    return Status::corrupt("its root has arrays that are not aligned");
  }
  NIMBLE_RETURN_IF_ERROR(move_sections(file, sink, index->partitions()));
  NIMBLE_RETURN_IF_ERROR(move_sections(file, sink, index->bloom_parts()));
  return std::vector<uint8_t>(index.bytes().begin(), index.bytes().end());
}

// Copies the key stream of a group of a sorted index, then the group's
// directory.
Result<SectionRef> move_sorted_group(const FileReader& file,
                                     const SectionRef& section,
                                     const SectionSink& sink) {
  NIMBLE_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes,
                          read_part(file, section));
  NIMBLE_ASSIGN_OR_RETURN(
      const auto group, FlatBufferView<fb::SortedGroup>::open(bytes, nullptr));
  const fb::ChunkDirectory* chunks = group->chunks();
  const auto* ends = chunks == nullptr ? nullptr : chunks->chunk_ends();
  if (ends == nullptr || ends->size() == 0 || !is_aligned(ends)) {
    return Status::corrupt("a group has no chunks");
  }
  const uint64_t size = ends->Get(ends->size() - 1);
  NIMBLE_RETURN_IF_ERROR(check_range(file, chunks->key_stream_offset(), size));
  std::vector<uint8_t> stream(size);
  NIMBLE_RETURN_IF_ERROR(
      file.file().read_at({chunks->key_stream_offset(), size, stream.data()}));
  NIMBLE_ASSIGN_OR_RETURN(const SectionRef moved, sink(stream));
  const auto* table = reinterpret_cast<const flatbuffers::Table*>(chunks);
  const uint8_t* place =
      table->GetAddressOf(fb::ChunkDirectory::VT_KEY_STREAM_OFFSET);
  if (place == nullptr) return Status::corrupt("a group has no stream of keys");
  overwrite(place, moved.offset);
  return sink(group.bytes());
}

Result<std::vector<uint8_t>> move_sorted(const FileReader& file, ByteSpan bytes,
                                         const SectionSink& sink) {
  NIMBLE_ASSIGN_OR_RETURN(
      const auto root,
      FlatBufferView<fb::SortedRoot>::open(bytes, fb::SortedRootIdentifier()));
  const auto* groups = root->groups();
  if (!is_aligned(groups)) {
    return Status::corrupt("its root has arrays that are not aligned");
  }
  for (uint32_t i = 0; groups != nullptr && i < groups->size(); ++i) {
    const fb::GroupRef* g = groups->Get(i);
    NIMBLE_ASSIGN_OR_RETURN(
        const SectionRef moved,
        move_sorted_group(file, from_fb(g->section()), sink));
    overwrite(g, fb::GroupRef(to_fb(moved), g->end_row()));
  }
  return std::vector<uint8_t>(root.bytes().begin(), root.bytes().end());
}

// Copies the lists of a vector index, then their directory, which has no
// offsets.
Result<std::vector<uint8_t>> move_vector(const FileReader& file, ByteSpan bytes,
                                         const SectionSink& sink) {
  NIMBLE_ASSIGN_OR_RETURN(
      VectorRoot root, VectorRoot::parse(bytes, file.postscript().footer_offset,
                                         file.num_rows()));
  if (root.num_lists == 0) return root.serialize();
  constexpr uint64_t kCopyBytes = uint64_t{16} << 20;
  uint64_t begin = 0;
  for (uint64_t at = 0; at < root.lists_bytes; at += kCopyBytes) {
    std::vector<uint8_t> part(std::min(kCopyBytes, root.lists_bytes - at));
    NIMBLE_RETURN_IF_ERROR(file.file().read_at(
        {root.lists_offset + at, part.size(), part.data()}));
    NIMBLE_ASSIGN_OR_RETURN(const SectionRef moved, sink(part));
    if (at == 0) begin = moved.offset;
    if (moved.offset != begin + at) {
      return Status::corrupt("the size of its lists is not a multiple of 8");
    }
  }
  NIMBLE_ASSIGN_OR_RETURN(const std::vector<uint8_t> directory,
                          read_part(file, root.directory));
  root.lists_offset = begin;
  NIMBLE_ASSIGN_OR_RETURN(root.directory, sink(directory));
  return root.serialize();
}

}  // namespace

Result<std::vector<uint8_t>> relocate_index(const FileReader& file,
                                            const SecondaryIndexRef& index,
                                            const SectionSink& sink) {
  NIMBLE_ASSIGN_OR_RETURN(const std::vector<uint8_t> root,
                          read_part(file, index.root));
  auto moved = index.kind == IndexKind::kHash ? move_hash(file, root, sink)
               : index.kind == IndexKind::kVector
                   ? move_vector(file, root, sink)
                   : move_sorted(file, root, sink);
  if (!moved) {
    return std::move(moved).error().with_context(file.file().name() +
                                                 ": index");
  }
  return moved;
}

}  // namespace nimble
