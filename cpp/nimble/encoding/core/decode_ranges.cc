#include "nimble/encoding/core/decode_ranges.h"

#include "nimble/base/compiler.h"

namespace nimble {
namespace {

// Copies between buffers in the L1 cache. For these sizes memcpy() often uses a
// string instruction, which is slow if the buffers have different alignments.
NIMBLE_CLONES void copy_near(uint8_t* __restrict to,
                             const uint8_t* __restrict from, uint64_t size) {
  constexpr uint64_t kStep = 64;
  if (size < kStep) {
    std::memcpy(to, from, size);
    return;
  }
  // Only the first and the last store may cross a cache line.
  std::memcpy(to, from, kStep);
  uint64_t at = kStep - reinterpret_cast<uintptr_t>(to) % kStep;
  for (; at + kStep <= size; at += kStep) {
    std::memcpy(to + at, from + at, kStep);
  }
  std::memcpy(to + (size - kStep), from + (size - kStep), kStep);
}

// Copies `n` bits that start at bit `from` of `source` to bit `to` of `target`.
// Other bits of `target` are unchanged.
// REQUIRES: 8 bytes after the bits can be read in `source` and written in
// `target`.
void copy_bits_near(const uint8_t* source, uint64_t from, uint64_t n,
                    uint8_t* target, uint64_t to) {
  while (n > 0) {
    const uint64_t some = std::min<uint64_t>(n, 56);
    const uint64_t mask = (uint64_t{1} << some) - 1;
    const uint64_t bits =
        load<uint64_t>(source + from / 8) >> (from % 8) & mask;
    uint8_t* const p = target + to / 8;
    const uint64_t others = load<uint64_t>(p) & ~(mask << (to % 8));
    store(p, others | bits << (to % 8));
    n -= some;
    from += some;
    to += some;
  }
}

}  // namespace

Status RangeOutput::decode_block(uint64_t first,
                                 std::span<const RowRange> ranges) {
  const ValueType& type = decoder_.type();
  const bool is_bool = type.kind == ValueKind::kBool;
  scratch_.resize(is_bool ? kBlockValues / 8
                          : uint64_t{kBlockValues} * type.width);
  Output whole;
  whole.data = scratch_.data();
  const auto end = static_cast<uint32_t>(
      std::min<uint64_t>(first + kBlockValues, decoder_.size()));
  NIMBLE_RETURN_IF_ERROR(
      decoder_.decode(body_, static_cast<uint32_t>(first), end, whole));
  for (const RowRange& r : ranges) {
    const RowRange part = in_block(r, first);
    const uint64_t from = part.begin - first;
    const Output to = next(part.size());
    if (is_bool) {
      copy_bits_near(scratch_.data(), from, part.size(), to.data,
                     to.bit_offset);
    } else {
      copy_near(to.data, scratch_.data() + from * type.width,
                part.size() * type.width);
    }
  }
  return Status::ok();
}

Status Decoder::decode_ranges(const SegmentBody& body,
                              std::span<const RowRange> ranges,
                              const Output& out) const {
  // Wider values, and values stored unencoded, are decoded range by range,
  // because copying them costs as much as decoding them.
  constexpr uint32_t kMostWidth = 16;
  bool is_copy = type().width > kMostWidth;
  if (!is_copy && !ranges.empty()) {
    const auto row = static_cast<uint32_t>(ranges.front().begin);
    NIMBLE_ASSIGN_OR_RETURN(const uint8_t* const lies,
                            view(body, row, row + 1));
    is_copy = lies != nullptr;
  }
  RangeOutput to(*this, body, out);
  if (!is_copy) {
    return to.decode(ranges, [&](uint64_t first, auto some, uint8_t**) {
      return to.decode_block(first, some);
    });
  }
  for (const RowRange& r : ranges) {
    NIMBLE_RETURN_IF_ERROR(to.decode_rows(r.begin, r.end));
  }
  return Status::ok();
}

}  // namespace nimble
