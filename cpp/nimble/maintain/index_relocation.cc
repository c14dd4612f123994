#include "nimble/maintain/index_relocation.h"

#include "hash_index_generated.h"
#include "nimble/format/aligned_vector.h"
#include "nimble/format/group.h"
#include "sorted_index_generated.h"

namespace nimble {
namespace {

// A FlatBuffer in aligned memory, whose fixed-size values may be overwritten.
class MutableBuffer {
 public:
  explicit MutableBuffer(const std::vector<uint8_t>& bytes)
      : words_(bytes.size() / 8 + 1), size_(bytes.size()) {
    if (size_ > 0) std::memcpy(words_.data(), bytes.data(), size_);
  }
  uint8_t* data() { return reinterpret_cast<uint8_t*>(words_.data()); }
  flatbuffers::Verifier verifier() { return {data(), size_}; }
  size_t size() const { return size_; }
  std::vector<uint8_t> bytes() { return {data(), data() + size_}; }

 private:
  std::vector<uint64_t> words_;
  size_t size_;
};

// Overwrites a value that lies in a MutableBuffer.
template <class T>
void overwrite(const void* place, const T& value) {
  std::memcpy(const_cast<void*>(place), &value, sizeof value);
}

SectionRef from_fb(const fb::Section& s) {
  return {s.offset(), s.size(), s.checksum()};
}
fb::Section to_fb(const SectionRef& s) {
  return fb::Section(s.offset, s.size, s.checksum);
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

Result<std::vector<uint8_t>> move_hash(const FileReader& file,
                                       MutableBuffer root,
                                       const SectionSink& sink) {
  flatbuffers::Verifier verifier = root.verifier();
  if (!fb::VerifyHashIndexBuffer(verifier)) {
    return Status::corrupt("its root is not a valid FlatBuffer");
  }
  const fb::HashIndex* index = fb::GetHashIndex(root.data());
  if (!is_aligned(index->partitions()) || !is_aligned(index->bloom_parts())) {
    return Status::corrupt("its root has arrays that are not aligned");
  }
  NIMBLE_RETURN_IF_ERROR(move_sections(file, sink, index->partitions()));
  NIMBLE_RETURN_IF_ERROR(move_sections(file, sink, index->bloom_parts()));
  return root.bytes();
}

// The directory of a group of a sorted index; its key stream comes before it.
Result<SectionRef> move_sorted_group(const FileReader& file,
                                     const SectionRef& section,
                                     const SectionSink& sink) {
  NIMBLE_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes,
                          read_part(file, section));
  MutableBuffer group(bytes);
  flatbuffers::Verifier verifier = group.verifier();
  const fb::ChunkDirectory* chunks = nullptr;
  if (verifier.VerifyBuffer<fb::SortedGroup>(nullptr)) {
    chunks = flatbuffers::GetRoot<fb::SortedGroup>(group.data())->chunks();
  }
  const auto* ends = chunks == nullptr ? nullptr : chunks->chunk_ends();
  if (ends == nullptr || ends->size() == 0 || !is_aligned(ends)) {
    return Status::corrupt("a group that is not a valid FlatBuffer");
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
  if (place == nullptr) return Status::corrupt("a group without key stream");
  overwrite(place, moved.offset);
  return sink(group.bytes());
}

Result<std::vector<uint8_t>> move_sorted(const FileReader& file,
                                         MutableBuffer root,
                                         const SectionSink& sink) {
  flatbuffers::Verifier verifier = root.verifier();
  if (!fb::VerifySortedRootBuffer(verifier)) {
    return Status::corrupt("its root is not a valid FlatBuffer");
  }
  const auto* groups = fb::GetSortedRoot(root.data())->groups();
  if (groups == nullptr) return root.bytes();
  if (!is_aligned(groups)) {
    return Status::corrupt("its root has arrays that are not aligned");
  }
  for (const fb::GroupRef* g : *groups) {
    NIMBLE_ASSIGN_OR_RETURN(
        const SectionRef moved,
        move_sorted_group(file, from_fb(g->section()), sink));
    overwrite(g, fb::GroupRef(to_fb(moved), g->end_row()));
  }
  return root.bytes();
}

}  // namespace

Result<std::vector<uint8_t>> relocate_index(const FileReader& file,
                                            const SecondaryIndexRef& index,
                                            const SectionSink& sink) {
  NIMBLE_ASSIGN_OR_RETURN(const std::vector<uint8_t> root,
                          read_part(file, index.root));
  if (root.size() < 16) return Status::corrupt("an index without root");
  auto moved = index.kind == IndexKind::kHash
                   ? move_hash(file, MutableBuffer(root), sink)
                   : move_sorted(file, MutableBuffer(root), sink);
  if (!moved) {
    return std::move(moved).error().with_context(file.file().name() +
                                                 ": index");
  }
  return moved;
}

}  // namespace nimble
