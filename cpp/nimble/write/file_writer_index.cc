// FileWriter: indexes rows with keys, zone maps and the Bloom filter.
#include "nimble/format/constants.h"
#include "nimble/key/key_decoder.h"
#include "nimble/write/file_writer.h"

namespace nimble {
namespace {

// If keys are long, only every n-th key is stored, and a lookup reads up to n
// keys from their columns. Returns n; 0 means that all keys are stored.
uint32_t key_sample_step(Effort effort) {
  switch (effort) {
    case Effort::kFast:
      return 0;
    case Effort::kCompact:
      return 64;
    case Effort::kBalanced:
      break;
  }
  return 16;
}

}  // namespace

void FileWriter::open_cluster_index() {
  ClusterIndexOptions index;
  index.chunk_keys = options_.key_chunk_rows;
  index.chunk.restart_interval = options_.restart_interval;
  index.chunk.sample_step = key_sample_step(options_.effort);
  index.unique = options_.unique;
  index.describe = [decoder = KeyDecoder(*encoder_)](ByteSpan key) {
    return decoder.to_text(key);
  };
  index_.emplace(index);
}

Status FileWriter::write_key_stream(ChunkDirectoryMeta* chunks) {
  const GroupKeys keys = index_->finish_group();
  if (keys.has_samples) required_features_ |= kFeatureSampledKeys;
  NIMBLE_RETURN_IF_ERROR(align_to(8));
  chunks->key_stream_offset = position_;
  uint64_t rows = 0, bytes = 0;
  for (const KeyChunkInfo& c : keys.chunks) {
    chunks->chunk_end_rows.push_back(rows += c.num_keys);
    chunks->chunk_ends.push_back(bytes += c.size);
  }
  for (size_t i = 0; i < keys.boundaries.size(); ++i) {
    const ByteSpan key = keys.boundaries.key(i);
    chunks->key_bytes.insert(chunks->key_bytes.end(), key.begin(), key.end());
    if (chunks->key_bytes.size() > UINT32_MAX) {
      return Status::unsupported("a group's boundary keys exceed 4 GiB");
    }
    chunks->key_ends.push_back(static_cast<uint32_t>(chunks->key_bytes.size()));
  }
  NIMBLE_RETURN_IF_ERROR(write_bytes(keys.blob.span()));
  footer_.key_stream_bytes += keys.blob.size();
  footer_.index_bytes += keys.blob.size() + chunks->key_bytes.size() +
                         chunks->key_ends.size() * 20;
  ClusterRoot& root = *footer_.cluster;
  if (footer_.groups.empty()) {
    root.first_key.assign(keys.first_key.data(),
                          keys.first_key.data() + keys.first_key.size());
  }
  root.key_bytes.insert(root.key_bytes.end(), keys.last_key.data(),
                        keys.last_key.data() + keys.last_key.size());
  if (root.key_bytes.size() > UINT32_MAX) {
    return Status::unsupported("the groups' boundary keys exceed 4 GiB");
  }
  root.key_ends.push_back(static_cast<uint32_t>(root.key_bytes.size()));
  return Status::ok();
}

Status FileWriter::write_zones() {
  for (const ZoneBuilder& z : zones_) {
    NIMBLE_ASSIGN_OR_RETURN(const SectionRef section,
                            write_section(z.serialize()));
    footer_.zones.push_back({z.node(), section, 0});
  }
  return Status::ok();
}

Status FileWriter::write_bloom() {
  if (options_.cluster_bloom_bits <= 0 || bloom_hashes_.size() == 0) {
    return Status::ok();
  }
  BloomFilterBuilder bloom(bloom_hashes_.size(), options_.cluster_bloom_bits);
  NIMBLE_RETURN_IF_ERROR(
      bloom_hashes_.finish([&](std::span<const uint64_t> hashes) {
        bloom.insert(hashes);
        return Status::ok();
      }));
  NIMBLE_ASSIGN_OR_RETURN(footer_.cluster->bloom, write_section(bloom.bytes()));
  footer_.index_bytes += bloom.bytes().size();
  return Status::ok();
}

}  // namespace nimble
