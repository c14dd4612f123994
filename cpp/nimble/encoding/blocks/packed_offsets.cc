#include "nimble/encoding/blocks/packed_offsets.h"

#include <algorithm>

namespace nimble {
namespace {

uint64_t zigzag(int64_t v) {
  return (static_cast<uint64_t>(v) << 1) ^ static_cast<uint64_t>(v >> 63);
}
uint64_t unzigzag(uint64_t v) { return (v >> 1) ^ (0 - (v & 1)); }

}  // namespace

void pack_sequential(std::span<const uint64_t> values, uint32_t width,
                     uint8_t* out) {
  uint64_t pending = 0;
  uint32_t bits = 0;
  for (const uint64_t v : values) {
    pending |= v << bits;
    bits += width;
    while (bits >= 8) {
      *out++ = static_cast<uint8_t>(pending);
      pending >>= 8;
      bits -= 8;
    }
  }
  if (bits > 0) *out = static_cast<uint8_t>(pending);
}

void PackedOffsets::write(std::span<const uint64_t> entries, ByteBuffer* head) {
  if (entries.empty()) return;
  const uint64_t n = entries.size();
  const uint64_t stride = n > 1 ? (entries[n - 1] - entries[0]) / (n - 1) : 0;
  int64_t low = INT64_MAX;
  int64_t high = INT64_MIN;
  for (uint64_t i = 0; i < n; ++i) {
    const int64_t deviation = static_cast<int64_t>(entries[i] - i * stride);
    low = std::min(low, deviation);
    high = std::max(high, deviation);
  }
  const uint64_t base = static_cast<uint64_t>(low);
  const uint32_t width = bit_width_of(static_cast<uint64_t>(high) - base);
  head->put_varint(stride);
  head->put_varint(zigzag(low));
  head->put_u8(static_cast<uint8_t>(width));
  std::vector<uint64_t> deviations(n);
  for (uint64_t i = 0; i < n; ++i)
    deviations[i] = entries[i] - i * stride - base;
  pack_sequential(deviations, width, head->extend(div_ceil(n * width, 8)));
}

Result<PackedOffsets> PackedOffsets::open(ByteReader* head, uint64_t count) {
  PackedOffsets out;
  out.count_ = count;
  if (count == 0) return out;
  out.stride_ = head->get_varint();
  out.base_ = unzigzag(head->get_varint());
  out.width_ = head->get_u8();
  if (head->ok() && out.width_ > kMaxWidth) {
    return Status::corrupt("offset width " + std::to_string(out.width_) +
                           " is above " + std::to_string(kMaxWidth));
  }
  out.mask_ = (uint64_t{1} << out.width_) - 1;
  // count is at most kSegmentValues, so this cannot overflow.
  const ByteSpan packed = head->get_bytes(div_ceil(count * out.width_, 8));
  NIMBLE_RETURN_IF_ERROR(head->status("offsets"));
  out.packed_.resize(packed.size() + 8);
  std::copy(packed.begin(), packed.end(), out.packed_.begin());
  return out;
}

}  // namespace nimble
