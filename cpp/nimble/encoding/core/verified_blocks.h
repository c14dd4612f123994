// VerifiedBlocks: records which blocks of a part passed their checksum, one bit
// per block. Thread-safe without locks.
#pragma once

#include <atomic>
#include <memory>

#include "nimble/base/hash.h"
#include "nimble/encoding/core/encoding.h"

namespace nimble {

// Counts the blocks of mapped bodies that are accessed for the first time,
// because the operating system may then read them. Thread-safe.
class TouchCounter {
 public:
  void add(uint64_t bytes) {
    touches_.fetch_add(1, std::memory_order_relaxed);
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  uint64_t touches() const { return touches_.load(std::memory_order_relaxed); }
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  void reset() { touches_ = bytes_ = 0; }

 private:
  std::atomic<uint64_t> touches_{0};
  std::atomic<uint64_t> bytes_{0};
};

class VerifiedBlocks {
 public:
  explicit VerifiedBlocks(uint64_t num_blocks)
      : num_words_(num_blocks / 64 + 1),
        words_(std::make_unique<std::atomic<uint64_t>[]>(num_words_)) {}

  // Verifies that `bytes` of block `index` have checksum `expected`. Blocks of
  // stable bodies are verified once.
  Status check(const SegmentBody& body, uint64_t index, ByteSpan bytes,
               uint64_t expected) const {
    const uint64_t bit = uint64_t{1} << (index % 64);
    std::atomic<uint64_t>& word = words_[index / 64];
    if (body.stable && (word.load(std::memory_order_relaxed) & bit) != 0) {
      return Status::ok();
    }
    if (checksum64(bytes) != expected) return mismatch(body, index, bytes);
    if (body.stable) {
      word.fetch_or(bit, std::memory_order_relaxed);
      if (body.touches != nullptr) body.touches->add(bytes.size());
    }
    return Status::ok();
  }
  size_t memory_bytes() const { return num_words_ * 8; }

 private:
  [[gnu::noinline, gnu::cold]] static Status mismatch(const SegmentBody& body,
                                                      uint64_t index,
                                                      ByteSpan bytes) {
    return Status::corrupt("checksum of block " + std::to_string(index) + " (" +
                           std::to_string(bytes.size()) + " bytes at byte " +
                           std::to_string(bytes.data() - body.data) +
                           " of the segment) does not match");
  }

  size_t num_words_;
  std::unique_ptr<std::atomic<uint64_t>[]> words_;
};

}  // namespace nimble
