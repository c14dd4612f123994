#include "encoding/text_samples.h"
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

TEST(ZstdBlocks, AnyStringsComeBack) {
  for (const Effort effort :
       {Effort::kBalanced, Effort::kFast, Effort::kCompact}) {
    for (const NamedSample& s : nasty_samples()) {
      check_encoding("zstd of " + s.name, s.sample, encode_with(effort));
    }
  }
}

TEST(ZstdBlocks, LargeSegmentsComeBack) {
  for (const NamedSample& s : large_samples()) {
    check_encoding("zstd of " + s.name, s.sample,
                   encode_with(Effort::kBalanced));
  }
  check_encoding(
      "zstd of bytes of one",
      bytes_sample(131072,
                   [](uint32_t i) { return std::string(mix(i) % 3, 'x'); }),
      encode_with(Effort::kCompact));
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

TEST(ZstdBlocks, ValuesBeyondABlocksLimitAreRefused) {
  const std::string huge((16u << 20) + 1, 'x');
  SegmentBuilder out;
  const Sample most = bytes_sample(1, [&](uint32_t) { return huge.substr(1); });
  CHECK(encode_zstd_blocks(most.values(), {}, &out).is_ok());
  const Sample more = bytes_sample(1, [&](uint32_t) { return huge; });
  CHECK(encode_zstd_blocks(more.values(), {}, &out).code() ==
        StatusCode::kUnsupported);
  const Sample bits = bool_sample(10, [](uint32_t i) { return i % 2 == 0; });
  CHECK(encode_zstd_blocks(bits.values(), {}, &out).code() ==
        StatusCode::kUnsupported);
}

// Long strings next to short ones: a block never exceeds its limit.
TEST(ZstdBlocks, BlocksStayWithinTheirLimit) {
  check_encoding("zstd of mixed",
                 bytes_sample(6,
                              [](uint32_t i) {
                                return std::string(
                                    i % 3 == 2 ? (15u << 20) + i : 10 + i, 'x');
                              }),
                 encode_with(Effort::kBalanced));
}

}  // namespace
}  // namespace nimble::testing
