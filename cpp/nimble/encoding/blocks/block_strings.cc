#include "nimble/encoding/blocks/block_strings.h"

namespace nimble {
namespace {

// With fewer blocks than this, each block reserves its own memory.
constexpr uint32_t kManyBlocks = 8;

}  // namespace

Status BlockStrings::decode(const SegmentBody& body, uint32_t begin,
                            uint32_t end, const Output& out) const {
  if (begin >= end) return Status::ok();
  BytesSink* const sink = out.bytes;
  if (blocks_.block_of(end - 1) - blocks_.block_of(begin) >= kManyBlocks) {
    const uint64_t all = std::min(room_.claimed, room_.most);
    const uint64_t share =
        end - begin == size() ? all : all / size() * (end - begin);
    sink->data.reserve(sink->data.size() + share +
                       std::min(room_.most, room_.spare));
  }
  return blocks_.decode(
      body, begin, end, sink,
      [&](const StringBlock& block, uint32_t from, uint32_t to, uint64_t at) {
        return decode_block(body, block, from, to, at, sink);
      });
}

}  // namespace nimble
