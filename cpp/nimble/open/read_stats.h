// ReadStats: counts the reads of a file since it was opened. In a file that is
// not mapped, a read is a request that no cache answered. In a mapped file, a
// read is the first access to a metadata section, key chunk or data block.
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

#include "nimble/encoding/core/verified_blocks.h"

namespace nimble {

enum class ReadKind : uint8_t { kOpen, kIndex, kData };

struct ReadStats {
  std::atomic<uint64_t> open_reads{0}, open_bytes{0};
  std::atomic<uint64_t> index_reads{0}, index_bytes{0};
  std::atomic<uint64_t> data_reads{0}, data_bytes{0};
  // Rounds of requests. A round begins after the previous round has ended.
  std::atomic<uint64_t> rounds{0};
  TouchCounter touches;  // data blocks of a mapped file

  void add(ReadKind kind, uint64_t reads, uint64_t bytes) {
    auto& r = kind == ReadKind::kOpen    ? open_reads
              : kind == ReadKind::kIndex ? index_reads
                                         : data_reads;
    auto& b = kind == ReadKind::kOpen    ? open_bytes
              : kind == ReadKind::kIndex ? index_bytes
                                         : data_bytes;
    r.fetch_add(reads, std::memory_order_relaxed);
    b.fetch_add(bytes, std::memory_order_relaxed);
  }
  void reset() {
    open_reads = open_bytes = index_reads = index_bytes = 0;
    data_reads = data_bytes = rounds = 0;
    touches.reset();
  }
};

}  // namespace nimble
