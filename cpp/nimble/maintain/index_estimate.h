// Estimates the size of a secondary index before it is built. Some of its
// partitions (hash), or some runs of its entries (sorted), are built like the
// writer builds them, and the result is extrapolated.
#pragma once

#include "nimble/reader/file_reader.h"
#include "nimble/write/options.h"

namespace nimble {

struct IndexEstimate {
  uint64_t size_bytes = 0;    // see SecondaryIndexRef
  uint64_t num_keys = 0;      // hash: distinct keys; sorted: rows
  uint64_t part_bytes = 0;    // what a lookup reads: a partition or chunk
  uint64_t sampled_rows = 0;  // rows in the parts that were built
};

// Uses the options of `options` that apply to indexes. Decodes the key columns
// of all rows, twice for a sorted index. Memory is that of the sample: at most
// about 64 MiB of hashes, or a few thousand keys. Blocks on reads.
Result<IndexEstimate> estimate_index(const FileReader& file,
                                     const IndexSpec& spec,
                                     const WriterOptions& options);

}  // namespace nimble
