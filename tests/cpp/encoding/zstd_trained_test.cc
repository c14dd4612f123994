#include "nimble/encoding/zstd/zstd_trained.h"

#include "encoding/text_samples.h"
#include "nimble/encoding/zstd/zstd_blocks.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

const std::string kWords = "the quick brown fox jumps over the lazy dog";

// Any bytes may be a dictionary.
Status encode_with_words(const Values& values, SegmentBuilder* out) {
  const auto* words = reinterpret_cast<const uint8_t*>(kWords.data());
  return encode_zstd_trained(values, {words, kWords.size()}, Effort::kBalanced,
                             out);
}

Status encode_with_own(const Values& values, SegmentBuilder* out) {
  return encode_zstd_trained(values, train_zstd(values, Effort::kCompact),
                             Effort::kCompact, out);
}

TEST(ZstdTrained, AnyStringsComeBack) {
  for (const NamedSample& s : nasty_samples()) {
    check_encoding("trained zstd of " + s.name, s.sample, encode_with_words);
  }
}

TEST(ZstdTrained, LargeSegmentsComeBack) {
  for (const NamedSample& s : large_samples()) {
    check_encoding("trained zstd of " + s.name, s.sample, encode_with_own);
  }
}

TEST(ZstdTrained, SizesAtBlockEdges) {
  for (const uint32_t n : kSizes) {
    check_encoding("trained zstd of words",
                   bytes_sample(n,
                                [](uint32_t i) {
                                  return comment(i % 1000).substr(0,
                                                                  mix(i) % 20);
                                }),
                   encode_with_words);
  }
}

TEST(ZstdTrained, SmallBlocksTakeNoMoreThanLargeOnesUntrained) {
  const Sample sample = bytes_sample(100000, comment);
  const uint64_t untrained =
      encoded_bytes(sample, [](const Values& v, SegmentBuilder* out) {
        EncodeContext compact;
        compact.effort = Effort::kCompact;
        return encode_zstd_blocks(v, compact, out);
      });
  const uint64_t trained = encoded_bytes(sample, encode_with_own);
  CHECK(trained * 100 < untrained * 102);
  const Values values = sample.values();
  const uint64_t guess = estimate_zstd_trained(
      values, train_zstd(values, Effort::kCompact), Effort::kCompact);
  CHECK(guess * 10 > trained * 9);
  CHECK(guess * 9 < trained * 10);
}

TEST(ZstdTrained, TrainingIsDeterministic) {
  const Sample sample = bytes_sample(20000, comment);
  CHECK(train_zstd(sample.values(), Effort::kCompact) ==
        train_zstd(sample.values(), Effort::kCompact));
  CHECK(!train_zstd(sample.values(), Effort::kCompact).empty());
  CHECK(
      train_zstd(bytes_sample(10, comment).values(), Effort::kCompact).empty());
}

TEST(ZstdTrained, ValuesBeyondABlocksLimitAreRefused) {
  const std::string huge((16u << 20) + 1, 'x');
  SegmentBuilder out;
  const Sample more = bytes_sample(1, [&](uint32_t) { return huge; });
  CHECK(encode_with_words(more.values(), &out).code() ==
        StatusCode::kUnsupported);
}

}  // namespace
}  // namespace nimble::testing
