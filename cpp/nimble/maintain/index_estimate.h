// What a secondary index would take, before it is built. Some of its
// partitions (hash), or some runs of its entries (sorted), are made as the
// writer makes them; the rest is taken to be like these.
#pragma once

#include "nimble/reader/file_reader.h"
#include "nimble/write/options.h"

namespace nimble {

struct IndexEstimate {
  uint64_t size_bytes = 0;    // as SecondaryIndexRef has it
  uint64_t num_keys = 0;      // hash: different keys; sorted: rows
  uint64_t part_bytes = 0;    // what a lookup reads at once: partition or chunk
  uint64_t sampled_rows = 0;  // that were made into index parts
};

// Of `options` those of indexes are used. Cost: the key columns of all rows
// are decoded, twice for a sorted index; memory is that of the sample, at most
// some 64 MiB of hashes or a few thousand keys.
Result<IndexEstimate> estimate_index(const FileReader& file,
                                     const IndexSpec& spec,
                                     const WriterOptions& options);

}  // namespace nimble
