// PackedOffsets: ascending positions (block starts, first rows of blocks) of
// which any one is read without touching the others. Entry i is
// i * stride + base + deviation i, the deviations packed in a fixed width: for
// blocks of similar size that is a few bits each, for equal ones none.
// Bytes in docs/format/encodings_strings.md.
#pragma once

#include <span>
#include <vector>

#include "nimble/base/byte_reader.h"
#include "nimble/base/result.h"
#include "nimble/memory/byte_buffer.h"

namespace nimble {

class PackedOffsets {
 public:
  // Wider deviations than this are corrupt: one 8-byte load must hold one.
  static constexpr uint32_t kMaxWidth = 56;

  // Writes nothing for no entries; the reader knows the count.
  static void write(std::span<const uint64_t> entries, ByteBuffer* head);
  static Result<PackedOffsets> open(ByteReader* head, uint64_t count);

  // i < count(). Entries of a hostile head may be anything, also descending.
  uint64_t get(uint64_t i) const {
    const uint64_t bit = i * width_;
    const uint64_t word = load<uint64_t>(packed_.data() + bit / 8);
    return i * stride_ + base_ + ((word >> (bit % 8)) & mask_);
  }
  uint64_t count() const { return count_; }
  size_t memory_bytes() const { return packed_.size(); }

 private:
  uint64_t count_ = 0;
  uint64_t stride_ = 0;
  uint64_t base_ = 0;  // two's complement: sums wrap on purpose
  uint64_t mask_ = 0;
  uint32_t width_ = 0;
  std::vector<uint8_t> packed_;  // with 8 bytes of slack for the loads
};

// Packs n values of `width` bits (<= 56), least significant bit first, one
// after the other, into div_ceil(n * width, 8) bytes that must be zero.
void pack_sequential(std::span<const uint64_t> values, uint32_t width,
                     uint8_t* out);

}  // namespace nimble
