// Estimates the size of a secondary index before it is built. Builds a sample
// like the writer would build it: partitions of a hash index, or runs of
// entries of a sorted index. The result is extrapolated.
#pragma once

#include "nimble/reader/file_reader.h"
#include "nimble/write/options.h"

namespace nimble {

struct IndexEstimate {
  uint64_t size_bytes = 0;  // see SecondaryIndexRef
  uint64_t num_keys = 0;    // hash: distinct keys; sorted: rows
  uint64_t part_bytes = 0;  // bytes that a lookup reads: a partition or a chunk
  uint64_t sampled_rows = 0;  // rows in the parts that were built
};

// Uses only those `options` that apply to indexes. Decodes the key columns of
// all rows, twice for a sorted index. The memory is that of the sample: at most
// about 64 MiB of hashes, or a few thousand keys. Blocks on reads.
Result<IndexEstimate> estimate_index(const FileReader& file,
                                     const IndexSpec& spec,
                                     const WriterOptions& options);

}  // namespace nimble
