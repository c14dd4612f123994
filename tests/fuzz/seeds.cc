#include "fuzz/seeds.h"

#include <string_view>

namespace nimble::fuzz {

std::vector<std::vector<uint8_t>> seeds_of(const Target& target) {
  if (target.takes_files) return file_seeds();
  const std::string_view name = target.name;
  if (name == "encoding") return encoding_seeds();
  if (name == "footer") return footer_seeds();
  if (name == "group") return group_seeds();
  if (name == "bloom") return bloom_seeds();
  if (name == "hash_partition") return partition_seeds();
  if (name == "key_chunk") return chunk_seeds();
  if (name == "key_decode") return key_seeds();
  if (name == "vector_index") return vector_index_seeds();
  return {file_seeds()[0]};  // postscript
}

}  // namespace nimble::fuzz
