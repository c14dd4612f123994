#include "nimble/lookup/key_chunk_source.h"

namespace nimble {

Result<ByteSpan> KeyChunkSource::bytes(const KeyChunkPlace& place) {
  if (const uint8_t* map = file_.file().mapped()) {
    const ByteSpan bytes(map + place.offset, place.size);
    if ((place.verified->load(std::memory_order_relaxed) &
         place.verified_bit) != 0) {
      return bytes;
    }
    file_.stats()->add(ReadKind::kIndex, 1, place.size);
    NIMBLE_RETURN_IF_ERROR(KeyChunk::verify_checksum(bytes));
    place.verified->fetch_or(place.verified_bit, std::memory_order_relaxed);
    return bytes;
  }
  uint64_t at = 0;
  owner_ = file_.range_cache()->find(place.offset, place.size, &at);
  if (owner_ == nullptr) {
    auto read = std::make_shared<std::vector<uint8_t>>(place.size);
    NIMBLE_RETURN_IF_ERROR(
        file_.file().read_at({place.offset, place.size, read->data()}));
    file_.stats()->add(ReadKind::kIndex, 1, place.size);
    file_.stats()->rounds.fetch_add(1, std::memory_order_relaxed);
    owner_ = read;
    at = place.offset;
    file_.range_cache()->put(place.offset, std::move(read));
  }
  const ByteSpan bytes =
      ByteSpan(*owner_).subspan(place.offset - at, place.size);
  NIMBLE_RETURN_IF_ERROR(KeyChunk::verify_checksum(bytes));
  return bytes;
}

Result<const KeyChunk*> KeyChunkSource::open(const KeyChunkPlace& place) {
  if (offset_ == place.offset && chunk_) return &*chunk_;
  offset_ = UINT64_MAX;
  const auto fail = [&](Status s) {
    return std::move(s).with_context(file_.file().name() +
                                     ": key chunk at offset " +
                                     std::to_string(place.offset));
  };
  auto read = bytes(place);
  if (!read) return fail(std::move(read).error());
  auto opened = KeyChunk::open(*read, place.num_keys);
  if (!opened) return fail(std::move(opened).error());
  chunk_ = std::move(opened).value();
  offset_ = place.offset;
  return &*chunk_;
}

}  // namespace nimble
