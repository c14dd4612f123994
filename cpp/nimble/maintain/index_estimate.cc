#include "nimble/maintain/index_estimate.h"

#include <algorithm>
#include <cmath>

#include "nimble/cursor/row_keys.h"
#include "nimble/index/bloom_filter.h"
#include "nimble/index/cluster_index_writer.h"
#include "nimble/index/hash_index_partition.h"
#include "nimble/index/hash_index_writer.h"
#include "nimble/index/hash_rows.h"
#include "nimble/key/key_sort.h"

namespace nimble {
namespace {

constexpr uint64_t kRowsPerKeys = 65536;
// Samples an eighth of the partitions, so that a key with many rows has about
// the same weight in the sample as in the file. But the sample has at most as
// many partitions as fit in memory.
constexpr uint64_t kLeastPartitions = 2;
constexpr uint64_t kMostPartitions = 128;
constexpr uint64_t kPartitionShare = 8;
// Keys with more rows than this are counted separately. There are few such
// keys, so the sample may not represent them.
constexpr size_t kManyRows = 1024;
// Number of sampled runs of a sorted index. Each has about two chunks.
constexpr uint64_t kRuns = 8;
constexpr uint64_t kMostSampledKeys = 65536;
constexpr uint64_t kGroupChunks = 512;
constexpr uint64_t kSectionBytes = 24;

// Calls take(keys, first_row) for all rows of the file, in order.
template <class Take>
Status each_key(const FileReader& file, const RowKeys& reader,
                const Take& take) {
  KeyBuffer keys;
  const uint64_t n = file.num_rows();
  for (uint64_t at = 0; at < n; at += kRowsPerKeys) {
    keys.clear();
    NIMBLE_RETURN_IF_ERROR(
        reader.read_range({at, std::min(n, at + kRowsPerKeys)}, &keys));
    NIMBLE_RETURN_IF_ERROR(take(keys, at));
  }
  return Status::ok();
}

uint64_t scaled(uint64_t part, double factor) {
  return static_cast<uint64_t>(
      std::llround(static_cast<double>(part) * factor));
}

// -------------------------------------------------------------------- hash

// Returns the pairs whose hashes are in the first `sample` of `partitions`
// partitions.
Result<std::vector<HashRow>> sample_pairs(const FileReader& file,
                                          const RowKeys& reader,
                                          uint64_t partitions,
                                          uint64_t sample) {
  std::vector<HashRow> pairs;
  NIMBLE_RETURN_IF_ERROR(
      each_key(file, reader, [&](const KeyBuffer& keys, uint64_t first_row) {
        for (size_t i = 0; i < keys.size(); ++i) {
          const uint64_t hash = key_hash64(keys.key(i));
          uint64_t unused;
          if (hash_digit(hash, partitions, &unused) >= sample) continue;
          pairs.push_back({hash, first_row + i});
        }
        return Status::ok();
      }));
  std::stable_sort(
      pairs.begin(), pairs.end(),
      [](const HashRow& a, const HashRow& b) { return a.hash < b.hash; });
  return pairs;
}

// Builds the partitions of the sample like the writer does.
class HashSample {
 public:
  HashSample(uint64_t partitions, uint64_t sample, uint64_t num_rows,
             double load_factor)
      : partitions_(partitions),
        factor_(static_cast<double>(partitions) / static_cast<double>(sample)),
        num_rows_(num_rows),
        builder_(num_rows, load_factor) {}

  Status add(std::span<const HashRow> pairs) {
    for (size_t begin = 0; begin < pairs.size();) {
      size_t end = begin + 1;
      while (end < pairs.size() && pairs[end].hash == pairs[begin].hash) ++end;
      NIMBLE_RETURN_IF_ERROR(add_key(pairs.subspan(begin, end - begin)));
      begin = end;
    }
    return end_partition();
  }
  uint64_t num_keys() const { return scaled(keys_, factor_); }
  uint64_t size_bytes() const {
    const uint64_t few = std::min(num_rows_, scaled(few_rows_, factor_));
    return scaled(bytes_, factor_) + list_bytes(num_rows_ - few);
  }

 private:
  Status add_key(std::span<const HashRow> rows) {
    ++keys_;
    // If all partitions are sampled, nothing is extrapolated, and these keys
    // are built too.
    if (rows.size() > kManyRows && factor_ > 1) return Status::ok();
    uint64_t fraction;
    const uint64_t partition = hash_digit(rows[0].hash, partitions_, &fraction);
    if (partition != partition_) NIMBLE_RETURN_IF_ERROR(end_partition());
    partition_ = partition;
    ++few_keys_;
    few_rows_ += rows.size();
    for (const HashRow& pair : rows) {
      NIMBLE_RETURN_IF_ERROR(builder_.add(fraction, pair.row));
    }
    return Status::ok();
  }
  // Estimated size of the lists of keys with many rows. Gaps are packed with
  // the width of the largest gap in a block. The expected largest of 256 random
  // gaps is ln 256 times the mean.
  uint64_t list_bytes(uint64_t rows) const {
    const uint64_t many_keys =
        std::max<uint64_t>(1, scaled(keys_ - few_keys_, factor_));
    if (rows == 0 || factor_ == 1) return 0;
    const double gap = static_cast<double>(num_rows_) *
                       static_cast<double>(many_keys) /
                       static_cast<double>(rows);
    const double bits =
        std::ceil(std::log2(1 + std::log(256.0) * (gap - 1))) + 0.15;
    return static_cast<uint64_t>(static_cast<double>(rows) * bits / 8);
  }
  Status end_partition() {
    if (builder_.empty()) return Status::ok();
    NIMBLE_ASSIGN_OR_RETURN(const std::vector<uint8_t> made, builder_.finish());
    bytes_ += made.size();
    return Status::ok();
  }

  const uint64_t partitions_;
  const double factor_;
  const uint64_t num_rows_;
  HashPartitionBuilder builder_;
  uint64_t partition_ = 0;
  uint64_t keys_ = 0, few_keys_ = 0, few_rows_ = 0, bytes_ = 0;
};

Result<IndexEstimate> estimate_hash(const FileReader& file,
                                    const RowKeys& reader,
                                    const IndexSpec& spec) {
  const uint64_t partitions =
      std::max<uint64_t>(1, div_ceil(file.num_rows(), kHashPartitionEntries));
  const uint64_t sample =
      std::min(partitions, std::clamp(partitions / kPartitionShare,
                                      kLeastPartitions, kMostPartitions));
  NIMBLE_ASSIGN_OR_RETURN(const std::vector<HashRow> pairs,
                          sample_pairs(file, reader, partitions, sample));
  HashSample made(partitions, sample, file.num_rows(), spec.load_factor);
  NIMBLE_RETURN_IF_ERROR(made.add(pairs));
  IndexEstimate out;
  out.sampled_rows = pairs.size();
  out.num_keys = std::clamp<uint64_t>(made.num_keys(), file.num_rows() > 0,
                                      file.num_rows());
  out.part_bytes = made.size_bytes() / partitions;
  const uint64_t bloom =
      spec.bloom_bits == 0
          ? 0
          : bloom_num_blocks(out.num_keys, spec.bloom_bits) * kBloomBlockSize;
  out.size_bytes = made.size_bytes() + bloom + (partitions + 4) * kSectionBytes;
  return out;
}

// ------------------------------------------------------------------ sorted

class SortedSample {
 public:
  SortedSample(const FileReader& file, const RowKeys& reader,
               const WriterOptions& options)
      : file_(file), reader_(reader), rows_(file.num_rows()) {
    chunks_.chunk_keys = options.key_chunk_rows;
    chunks_.chunk.restart_interval = options.restart_interval;
    row_width_ = std::max<uint32_t>(
        1, static_cast<uint32_t>(
               div_ceil(bit_width_of(rows_ == 0 ? 0 : rows_ - 1), 8)));
  }

  Result<IndexEstimate> estimate() {
    NIMBLE_RETURN_IF_ERROR(choose_runs());
    NIMBLE_RETURN_IF_ERROR(collect());
    for (const KeyBuffer& run : runs_) NIMBLE_RETURN_IF_ERROR(build(run));
    return result();
  }

 private:
  ByteSpan entry(ByteSpan key, uint64_t row) {
    entry_.clear();
    entry_.put_bytes(key);
    store_be(entry_.extend(row_width_), row, row_width_);
    return entry_.span();
  }

  // Chooses bounds of runs. Bounds are entries (key and row) of the file, so a
  // run may also be a part of the rows of one key. A small file is one run
  // without bounds.
  Status choose_runs() {
    const uint64_t wanted = std::min(
        kMostSampledKeys, rows_ / std::max<uint64_t>(1, chunks_.chunk_keys));
    if (wanted < 4 * kRuns) {
      runs_.resize(1);
      return Status::ok();
    }
    KeyBuffer sampled;
    const uint64_t every = rows_ / wanted;
    NIMBLE_RETURN_IF_ERROR(each_key(
        file_, reader_, [&](const KeyBuffer& keys, uint64_t first_row) {
          for (uint64_t r = round_up_to(first_row, every);
               r < first_row + keys.size(); r += every) {
            sampled.push_back(entry(keys.key(r - first_row), r));
          }
          return Status::ok();
        }));
    std::vector<uint64_t> order;
    sort_keys(sampled, &order);
    const uint64_t per_run =
        std::max<uint64_t>(2, div_ceil(2 * chunks_.chunk_keys, every));
    for (uint64_t i = 0; i < kRuns; ++i) {
      const uint64_t at = (2 * i + 1) * order.size() / (2 * kRuns);
      if (at + per_run >= order.size()) break;
      bounds_.push_back(sampled.key(order[at]));
      bounds_.push_back(sampled.key(order[at + per_run]));
    }
    runs_.resize(bounds_.size() / 2);
    return Status::ok();
  }
  static uint64_t round_up_to(uint64_t n, uint64_t step) {
    return div_ceil(n, step) * step;
  }

  Status collect() {
    return each_key(file_, reader_,
                    [this](const KeyBuffer& keys, uint64_t first_row) {
                      for (size_t i = 0; i < keys.size(); ++i) {
                        add(entry(keys.key(i), first_row + i));
                      }
                      return Status::ok();
                    });
  }
  void add(ByteSpan e) {
    if (bounds_.empty()) {
      runs_[0].push_back(e);
      return;
    }
    size_t low = 0, high = bounds_.size();  // finds the first bound above e
    while (low < high) {
      const size_t middle = (low + high) / 2;
      if (compare_bytes(bounds_.key(middle), e) <= 0) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (low % 2 == 1) runs_[low / 2].push_back(e);
  }

  // Builds the run's chunks. If the last entries do not fill a chunk, they are
  // left out, unless there is no other chunk.
  Status build(const KeyBuffer& run) {
    std::vector<uint64_t> order;
    sort_keys(run, &order);
    KeyBuffer sorted;
    size_t n = order.size();
    if (n > chunks_.chunk_keys) n -= n % chunks_.chunk_keys;
    for (size_t i = 0; i < n; ++i) sorted.push_back(run.key(order[i]));
    ClusterIndexWriter writer(chunks_);
    NIMBLE_RETURN_IF_ERROR(writer.add(sorted, 0, n));
    const GroupKeys made = writer.finish_group();
    entries_ += n;
    num_chunks_ += made.chunks.size();
    chunk_bytes_ += made.blob.size();
    boundary_bytes_ += made.boundaries.num_bytes();
    return Status::ok();
  }

  IndexEstimate result() const {
    // Directory bytes per chunk: its end in rows, its end in bytes, and the end
    // of its boundary.
    constexpr uint64_t kDirectoryBytes = 8 + 8 + 4;
    IndexEstimate out;
    out.num_keys = rows_;
    out.sampled_rows = entries_;
    if (entries_ == 0) return out;
    const double factor =
        static_cast<double>(rows_) / static_cast<double>(entries_);
    const uint64_t chunks = std::max<uint64_t>(1, scaled(num_chunks_, factor));
    out.part_bytes = chunk_bytes_ / num_chunks_;
    out.size_bytes = scaled(chunk_bytes_ + boundary_bytes_, factor) +
                     chunks * kDirectoryBytes +
                     (div_ceil(chunks, kGroupChunks) + 2) * 2 * kSectionBytes;
    return out;
  }

  const FileReader& file_;
  const RowKeys& reader_;
  const uint64_t rows_;
  ClusterIndexOptions chunks_;
  uint32_t row_width_ = 1;
  KeyBuffer bounds_;  // run i has the keys in [bound 2 i, bound 2 i + 1)
  std::vector<KeyBuffer> runs_;
  ByteBuffer entry_;
  uint64_t entries_ = 0, num_chunks_ = 0, chunk_bytes_ = 0, boundary_bytes_ = 0;
};

}  // namespace

Result<IndexEstimate> estimate_index(const FileReader& file,
                                     const IndexSpec& spec,
                                     const WriterOptions& options) {
  NIMBLE_ASSIGN_OR_RETURN(const auto reader,
                          RowKeys::create(file, spec.columns));
  return spec.kind == IndexKind::kHash
             ? estimate_hash(file, *reader, spec)
             : SortedSample(file, *reader, options).estimate();
}

}  // namespace nimble
