#include "encoding/encoding_conformance.h"
#include "nimble/encoding/zstd/zstd_blocks.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

Encode encode_with(Effort effort) {
  return [effort](const Values& values, SegmentBuilder* out) {
    EncodeContext context;
    context.effort = effort;
    return encode_zstd_blocks(values, context, out);
  };
}

TEST(ZstdBlocks, FixedWidthsComeBack) {
  for (const uint32_t width : {1u, 3u, 4u, 8u, 16u, 32u, 20000u}) {
    const uint32_t n = width > 1000 ? 20 : 5000;
    const Sample sample = fixed_sample(
        ValueType::fixed(width), n,
        [](uint32_t i, uint8_t* to) { *to = static_cast<uint8_t>(i % 17); });
    check_encoding("zstd of width " + std::to_string(width), sample,
                   encode_with(Effort::kBalanced));
  }
  for (const uint32_t n : kSizes) {
    check_encoding(
        "zstd of doubles",
        double_sample(n, [](uint32_t i) { return 0.1 * (i % 1000); }),
        encode_with(Effort::kBalanced));
  }
}

// A width that does not divide the size of a block, and a last block of one.
TEST(ZstdBlocks, GatherOverBlocks) {
  for (const uint32_t n : {1u, 5462u, 5463u, 20000u}) {
    check_encoding("zstd of width 3",
                   fixed_sample(ValueType::fixed(3), n,
                                [](uint32_t i, uint8_t* to) {
                                  to[0] = static_cast<uint8_t>(mix(i) % 5);
                                }),
                   encode_with(Effort::kCompact));
  }
}

}  // namespace
}  // namespace nimble::testing
