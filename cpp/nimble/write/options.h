// WriterOptions: plain values with their defaults.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "nimble/encoding/core/encoding.h"
#include "nimble/format/footer.h"

namespace nimble {

// One secondary index to build.
struct IndexSpec {
  IndexKind kind = IndexKind::kSorted;
  std::vector<KeyColumnSpec> columns;
  // Hash indexes only.
  double load_factor = 0.7;  // keys per place in a bucket, in (0, 1]
  double bloom_bits = 10.0;  // per key, 0 to 64; 0: no filter
};

struct WriterOptions {
  Effort effort = Effort::kBalanced;
  // A stripe ends at the first of these; a group at the first of those.
  uint64_t stripe_rows = 131072;               // 1 to kMaxStripeRows - 1
  uint64_t stripe_bytes = uint64_t{64} << 20;  // of Arrow data
  uint64_t group_rows = uint64_t{1} << 20;
  uint64_t group_bytes = uint64_t{64} << 20;  // of encoded data
  uint32_t key_chunk_rows = 2048;
  uint32_t restart_interval = 16;  // every n-th key of a chunk is stored whole
  double cluster_bloom_bits = 0;   // per key; 0: no filter
  uint32_t zone_rows = 8192;       // rows per entry of a zone map
  bool statistics = true;          // zone maps are written
  std::vector<uint32_t> statistics_columns;  // top-level; empty: all
  // Of rows that are sorted; what exceeds it is spilled.
  uint64_t sort_memory_bytes = uint64_t{512} << 20;
  uint32_t threads = 0;  // that encode; 0: one per processor
  std::vector<KeyColumnSpec> cluster_by;
  bool unique = false;  // a cluster key that occurs twice is an error
  std::vector<IndexSpec> indexes;
  // Of all secondary indexes while they are built; what exceeds it is spilled.
  uint64_t index_memory_bytes = uint64_t{256} << 20;
  std::string spill_directory;  // empty: TMPDIR, or /tmp
  // Columns with a Bloom filter per stripe, as child numbers from the root.
  std::vector<std::vector<int>> bloom_columns;
  double bloom_bits_per_key = 10.0;
  std::vector<std::pair<std::string, std::string>> metadata;
  // Asked now and then while rows are taken, sorted or merged, on the thread
  // that called; an error ends the write. Empty: nothing is asked.
  std::function<Status()> poll;
};

}  // namespace nimble
