#include "nimble/index/hash_index_writer.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "hash_index_generated.h"
#include "nimble/format/flat_buffer.h"
#include "nimble/index/bloom_filter.h"
#include "nimble/index/hash_index_partition.h"

namespace nimble {
namespace {

// Number of keys to hash before the next check whether the sorter is full.
constexpr size_t kKeysPerCheck = 4096;

// Cuts ascending pairs into partitions.
class PartitionCutter {
 public:
  PartitionCutter(uint64_t num_partitions, HashPartitionBuilder builder,
                  const SectionSink& sink, std::vector<SectionRef>* out)
      : num_partitions_(num_partitions),
        builder_(std::move(builder)),
        sink_(sink),
        out_(*out) {}

  Status add(HashRow pair) {
    uint64_t fraction;
    const uint64_t partition =
        hash_digit(pair.hash, num_partitions_, &fraction);
    if (partition != out_.size()) NIMBLE_RETURN_IF_ERROR(end_before(partition));
    return builder_.add(fraction, pair.row);
  }
  // Writes the pending partition as partition out.size(). Partitions between it
  // and `partition` are empty.
  Status end_before(uint64_t partition) {
    if (!builder_.empty()) {
      NIMBLE_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes,
                              builder_.finish());
      NIMBLE_ASSIGN_OR_RETURN(const SectionRef section, sink_(bytes));
      out_.push_back(section);
    }
    out_.resize(partition);
    return Status::ok();
  }

 private:
  const uint64_t num_partitions_;
  HashPartitionBuilder builder_;
  const SectionSink& sink_;
  std::vector<SectionRef>& out_;
};

// Fills the parts of a filter, one after the other, from ascending hashes.
class BloomCutter {
 public:
  BloomCutter(uint64_t num_blocks, const SectionSink& sink,
              std::vector<SectionRef>* out)
      : num_blocks_(num_blocks), sink_(sink), out_(*out) {
    begin_part();
  }

  Status add(uint64_t hash) {
    const uint64_t block = bloom_block(hash, num_blocks_);
    while (block >= first_ + kBloomPartBlocks)
      NIMBLE_RETURN_IF_ERROR(end_part());
    bloom_insert(&words_[(block - first_) * kWords], hash);
    return Status::ok();
  }
  Status finish() {
    while (first_ < num_blocks_) NIMBLE_RETURN_IF_ERROR(end_part());
    return Status::ok();
  }

 private:
  static constexpr size_t kWords = kBloomBlockSize / sizeof(uint32_t);

  void begin_part() {
    const uint64_t left = num_blocks_ - first_;
    words_.assign(std::min(left, kBloomPartBlocks) * kWords, 0);
  }
  Status end_part() {
    NIMBLE_ASSIGN_OR_RETURN(
        const SectionRef section,
        sink_({reinterpret_cast<const uint8_t*>(words_.data()),
               words_.size() * sizeof(uint32_t)}));
    out_.push_back(section);
    first_ += words_.size() / kWords;
    begin_part();
    return Status::ok();
  }

  const uint64_t num_blocks_;
  const SectionSink& sink_;
  std::vector<SectionRef>& out_;
  uint64_t first_ = 0;  // first block of the part
  std::vector<uint32_t> words_;
};

}  // namespace

HashIndexWriter::HashIndexWriter(HashIndexOptions options)
    : options_(std::move(options)),
      sorter_(options_.memory_bytes, options_.spill_directory, HashRows(),
              options_.poll),
      hashes_(options_.spill_directory) {}

Result<std::unique_ptr<HashIndexWriter>> HashIndexWriter::create(
    HashIndexOptions options) {
  // The comparison also rejects a NaN.
  if (!(options.load_factor > 0 && options.load_factor <= 1)) {
    return Status::invalid_argument("hash index: load_factor is " +
                                    std::to_string(options.load_factor) +
                                    ", it must be above 0 and at most 1");
  }
  if (!(options.bloom_bits_per_key >= 0 && options.bloom_bits_per_key <= 64)) {
    return Status::invalid_argument("hash index: bloom_bits_per_key is " +
                                    std::to_string(options.bloom_bits_per_key) +
                                    ", it must be 0 to 64");
  }
  return std::unique_ptr<HashIndexWriter>(
      new HashIndexWriter(std::move(options)));
}

Status HashIndexWriter::add(const KeyBuffer& keys, size_t begin, size_t end,
                            uint64_t first_row) {
  num_entries_ += end - begin;
  for (size_t at = begin; at < end;) {
    const size_t to = std::min(end, at + kKeysPerCheck);
    for (; at < to; ++at) {
      sorter_.batch().push_back(
          {key_hash64(keys.key(at)), first_row + (at - begin)});
    }
    NIMBLE_RETURN_IF_ERROR(sorter_.added());
  }
  if (end > begin) {
    num_rows_ = std::max(num_rows_, first_row + (end - begin));
  }
  return Status::ok();
}

Status HashIndexWriter::write_partitions(const SectionSink& sink) {
  const uint64_t partitions =
      std::max<uint64_t>(1, div_ceil(num_entries_, kHashPartitionEntries));
  PartitionCutter cutter(partitions,
                         HashPartitionBuilder(num_rows_, options_.load_factor),
                         sink, &partitions_);
  const bool has_filter = options_.bloom_bits_per_key > 0;
  std::optional<uint64_t> last;
  NIMBLE_RETURN_IF_ERROR(sorter_.finish([&](const HashRows& sorted) -> Status {
    for (const HashRow& pair : sorted.pairs()) {
      if (last != pair.hash) {
        ++num_keys_;
        if (has_filter) NIMBLE_RETURN_IF_ERROR(hashes_.add(pair.hash));
      }
      last = pair.hash;
      NIMBLE_RETURN_IF_ERROR(cutter.add(pair));
    }
    return Status::ok();
  }));
  return cutter.end_before(partitions);
}

Status HashIndexWriter::write_bloom(const SectionSink& sink) {
  if (options_.bloom_bits_per_key == 0) return Status::ok();
  BloomCutter cutter(bloom_num_blocks(num_keys_, options_.bloom_bits_per_key),
                     sink, &bloom_parts_);
  NIMBLE_RETURN_IF_ERROR(
      hashes_.finish([&](std::span<const uint64_t> hashes) -> Status {
        for (const uint64_t h : hashes) NIMBLE_RETURN_IF_ERROR(cutter.add(h));
        return Status::ok();
      }));
  return cutter.finish();
}

Result<std::vector<uint8_t>> HashIndexWriter::finish(const SectionSink& sink) {
  NIMBLE_RETURN_IF_ERROR(write_partitions(sink));
  NIMBLE_RETURN_IF_ERROR(write_bloom(sink));
  flatbuffers::FlatBufferBuilder b;
  const auto partitions = b.CreateVectorOfStructs(to_fb(partitions_));
  const auto bloom = b.CreateVectorOfStructs(to_fb(bloom_parts_));
  fb::FinishHashIndexBuffer(
      b, fb::CreateHashIndex(b, num_rows_, num_entries_, num_keys_, partitions,
                             bloom));
  return std::vector<uint8_t>(b.GetBufferPointer(),
                              b.GetBufferPointer() + b.GetSize());
}

}  // namespace nimble
