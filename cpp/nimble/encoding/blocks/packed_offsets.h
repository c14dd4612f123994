// PackedOffsets: ascending positions, such as block starts, with O(1) access to
// each. Entry i is i * stride + base + deviation i. The deviations are packed
// with a fixed width: a few bits for blocks of similar size, zero bits for
// equal blocks.
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
  // Maximum width of a deviation, in bits: one 8-byte load must cover a
  // deviation that starts at any bit of a byte. A head with a larger width is
  // corrupt.
  static constexpr uint32_t kMaxWidth = 56;

  // Writes the entries, or nothing if `entries` is empty. The reader must know
  // the count.
  static void write(std::span<const uint64_t> entries, ByteBuffer* head);
  static Result<PackedOffsets> open(ByteReader* head, uint64_t count);

  // Returns entry i. The entries of a hostile head may be any values, even
  // descending.
  // REQUIRES: i < count().
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
  uint64_t base_ = 0;  // two's complement; sums may wrap
  uint64_t mask_ = 0;
  uint32_t width_ = 0;
  std::vector<uint8_t> packed_;  // with 8 bytes of slack for the loads
};

// Packs n values of `width` bits, least significant bit first, into div_ceil(n
// * width, 8) bytes.
// REQUIRES: width <= 56; the bytes are zero.
void pack_sequential(std::span<const uint64_t> values, uint32_t width,
                     uint8_t* out);

}  // namespace nimble
