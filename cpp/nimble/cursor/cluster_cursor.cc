#include "nimble/cursor/cluster_cursor.h"

namespace nimble {

Result<KeyGroupHandle> ClusterOrder::group(size_t i) const {
  NIMBLE_ASSIGN_OR_RETURN(GroupHandle group,
                          file_.groups().get(i, ReadKind::kIndex));
  const KeyChunkGroup& keys = group->keys();
  return std::move(group).narrow(keys);
}

Result<std::optional<uint64_t>> ClusterCursor::find_first(ByteSpan key) {
  const OpenFile& file = order_.file();
  std::optional<uint64_t> row;
  NIMBLE_ASSIGN_OR_RETURN(const BloomFilter* bloom, index_.bloom(1));
  if (bloom != nullptr && !bloom->might_contain(key)) return row;
  // A key before the first key is absent. This check needs no read.
  if (compare_bytes(key, file.footer().cluster->first_key) < 0) return row;
  NIMBLE_ASSIGN_OR_RETURN(const bool inside, keys_.open_chunk_of(key));
  if (!inside) return row;
  NIMBLE_ASSIGN_OR_RETURN(const KeyGap gap, keys_.chunk().gap(key));
  // Keys are not prefixes of other keys, so the next chunk cannot have this
  // key.
  NIMBLE_ASSIGN_OR_RETURN(const FoundKey match, keys_.chunk().find(key, gap));
  if (match.is_equal) row = keys_.first_place() + match.at;
  return row;
}

Result<bool> ClusterCursor::stored_key_at(uint64_t row, ByteBuffer* key) {
  NIMBLE_RETURN_IF_ERROR(keys_.open_chunk_at(row));
  const auto i = static_cast<uint32_t>(row - keys_.first_place());
  if (i % keys_.chunk().step() != 0) return false;
  NIMBLE_RETURN_IF_ERROR(keys_.chunk().key_at(i, key));
  return true;
}

Result<RowRange> ClusterCursor::rows_to_read(ByteSpan target) {
  NIMBLE_ASSIGN_OR_RETURN(const bool inside, keys_.open_chunk_of(target));
  if (!inside) return RowRange{};
  NIMBLE_ASSIGN_OR_RETURN(const KeyGap gap, keys_.chunk().gap(target));
  return columns_.answer_rows(keys_.first_place() + gap.begin,
                              keys_.first_place() + gap.end);
}

}  // namespace nimble
