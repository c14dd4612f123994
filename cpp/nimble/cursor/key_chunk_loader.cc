#include "nimble/cursor/key_chunk_loader.h"

namespace nimble {
namespace {

// Returns the bytes of a chunk of a file that is not mapped, from the range
// cache or by reading them.
Result<ByteSpan> read_chunk(const OpenFile& file, const ChunkLocation& at,
                            RangeCache::Bytes* owner) {
  uint64_t begin = 0;  // file offset of the cached bytes
  *owner = file.range_cache()->find(at.offset, at.size, &begin);
  if (*owner == nullptr) {
    auto read = std::make_shared<std::vector<uint8_t>>(at.size);
    NIMBLE_RETURN_IF_ERROR(
        file.file().read_at({at.offset, at.size, read->data()}));
    file.stats()->add(ReadKind::kIndex, 1, at.size);
    file.stats()->rounds.fetch_add(1, std::memory_order_relaxed);
    *owner = read;
    begin = at.offset;
    file.range_cache()->put(at.offset, std::move(read));
  }
  return ByteSpan(**owner).subspan(at.offset - begin, at.size);
}

}  // namespace

Status OpenKeyChunk::open(const OpenFile& file, const KeyChunkGroup& group,
                          size_t number, const KeySource* source) {
  const ChunkLocation at = group.location(number);
  const uint8_t* const map = file.file().mapped();
  const auto open_bytes = [&]() -> Status {
    ByteSpan bytes(map + at.offset, map != nullptr ? at.size : 0);
    bool verify = true;
    if (map == nullptr) {
      NIMBLE_ASSIGN_OR_RETURN(bytes, read_chunk(file, at, &owner));
    } else {
      verify = !group.is_verified(number);
      if (verify) file.stats()->add(ReadKind::kIndex, 1, at.size);
    }
    if (verify) {
      NIMBLE_RETURN_IF_ERROR(KeyChunk::verify_checksum(bytes));
      if (map != nullptr) group.set_verified(number);
    }
    NIMBLE_ASSIGN_OR_RETURN(
        chunk, KeyChunk::open(bytes, at.num_keys, source, at.first));
    return Status::ok();
  };
  first = at.first;
  Status status = open_bytes();
  if (status) [[likely]] {
    return status;
  }
  chunk.reset();
  return std::move(status).with_context(file.file().name() + ": key chunk " +
                                        std::to_string(number) + " at offset " +
                                        std::to_string(at.offset));
}

}  // namespace nimble
