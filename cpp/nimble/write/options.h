// WriterOptions: plain values with defaults.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "nimble/encoding/core/encoding.h"
#include "nimble/format/footer.h"
#include "nimble/index/vector/vector_layout.h"

namespace nimble {

// A secondary index to build.
struct IndexSpec {
  IndexKind kind = IndexKind::kSorted;
  std::vector<KeyColumnSpec> columns;
  // For hash indexes only.
  double load_factor = 0.7;  // fill of the buckets, in (0, 1]
  double bloom_bits = 10.0;  // per key, 0 to 64; 0: no filter
  // For vector indexes only, which have one column.
  VectorMetric metric = VectorMetric::kL2;
  uint32_t lists = 0;          // 0: chosen from the number of rows
  std::vector<float> queries;  // to calibrate on; empty: a sample of the rows
  KnownCentroids known;        // to start training from; may be empty
};

struct WriterOptions {
  Effort effort = Effort::kBalanced;
  // A stripe ends when it reaches one of the two stripe limits, a group when it
  // reaches one of the two group limits.
  uint64_t stripe_rows = 131072;               // 1 to kMaxStripeRows - 1
  uint64_t stripe_bytes = uint64_t{64} << 20;  // of Arrow data
  uint64_t group_rows = uint64_t{1} << 20;
  uint64_t group_bytes = uint64_t{64} << 20;  // of encoded data
  uint32_t key_chunk_rows = 2048;
  uint32_t restart_interval = 16;            // every n-th key is stored whole
  double cluster_bloom_bits = 0;             // per key; 0: no filter
  uint32_t zone_rows = 8192;                 // rows per entry of a zone map
  bool statistics = true;                    // write zone maps
  std::vector<uint32_t> statistics_columns;  // top-level; empty: all
  // Memory for sorting rows. More data is spilled to disk.
  uint64_t sort_memory_bytes = uint64_t{512} << 20;
  uint32_t threads = 0;  // for encoding; 0: one per processor
  std::vector<KeyColumnSpec> cluster_by;
  bool unique = false;  // a duplicate cluster key is an error
  std::vector<IndexSpec> indexes;
  // Memory for building all secondary indexes. More data is spilled to disk.
  uint64_t index_memory_bytes = uint64_t{256} << 20;
  std::string spill_directory;  // empty: TMPDIR, or /tmp
  // Columns with a Bloom filter per stripe, as child indexes from the root.
  std::vector<std::vector<int>> bloom_columns;
  double bloom_bits_per_key = 10.0;
  std::vector<std::pair<std::string, std::string>> metadata;
  // Called occasionally while rows are added, sorted or merged, on the calling
  // thread. An error aborts the write. May be empty.
  std::function<Status()> poll;
};

}  // namespace nimble
