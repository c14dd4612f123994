#include "nimble/encoding/zstd/zstd_strings.h"

#include "encoding/text_samples.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

const std::string kWords = "the quick brown fox jumps over the lazy dog";

// Any bytes may be a dictionary.
Status encode_with_words(const Values& values, SegmentBuilder* out) {
  const auto* words = reinterpret_cast<const uint8_t*>(kWords.data());
  return encode_zstd_strings(values, {words, kWords.size()}, Effort::kBalanced,
                             out);
}

Status encode_with_own(const Values& values, SegmentBuilder* out) {
  return encode_zstd_strings(values, train_zstd(values, Effort::kCompact),
                             Effort::kCompact, out);
}

TEST(ZstdStrings, AnyStringsComeBack) {
  for (const NamedSample& s : nasty_samples()) {
    check_encoding("zstd strings of " + s.name, s.sample, encode_with_words);
  }
}

TEST(ZstdStrings, LargeSegmentsComeBack) {
  for (const NamedSample& s : large_samples()) {
    check_encoding("zstd strings of " + s.name, s.sample, encode_with_own);
  }
}

TEST(ZstdStrings, SizesAtBlockEdges) {
  for (const uint32_t n : kSizes) {
    check_encoding("zstd strings of words",
                   bytes_sample(n,
                                [](uint32_t i) {
                                  return comment(i % 1000).substr(0,
                                                                  mix(i) % 20);
                                }),
                   encode_with_words);
  }
}

Status encode_without(const Values& values, SegmentBuilder* out) {
  return encode_zstd_strings(values, {}, Effort::kCompact, out);
}

TEST(ZstdStrings, NoDictionaryIsNeeded) {
  for (const NamedSample& s : nasty_samples()) {
    check_encoding("zstd strings without a dictionary of " + s.name, s.sample,
                   encode_without);
  }
}

TEST(ZstdStrings, TheDictionarySavesAsMuchAsLargeBlocks) {
  const Sample sample = bytes_sample(100000, comment);
  const Values values = sample.values();
  const uint64_t trained = encoded_bytes(sample, encode_with_own);
  CHECK(trained * 100 < probe_zstd_strings(values, Effort::kCompact) * 105);
  CHECK(trained * 10 < encoded_bytes(sample, encode_without) * 9);
  const uint64_t guess = estimate_zstd_strings(
      values, train_zstd(values, Effort::kCompact), Effort::kCompact);
  CHECK(guess * 10 > trained * 9);
  CHECK(guess * 9 < trained * 10);
}

TEST(ZstdStrings, TrainingIsDeterministic) {
  const Sample sample = bytes_sample(20000, comment);
  CHECK(train_zstd(sample.values(), Effort::kCompact) ==
        train_zstd(sample.values(), Effort::kCompact));
  CHECK(!train_zstd(sample.values(), Effort::kCompact).empty());
  CHECK(
      train_zstd(bytes_sample(10, comment).values(), Effort::kCompact).empty());
}

TEST(ZstdStrings, ValuesBeyondABlocksLimitAreRefused) {
  const std::string huge((16u << 20) + 1, 'x');
  SegmentBuilder out;
  const Sample more = bytes_sample(1, [&](uint32_t) { return huge; });
  CHECK(encode_with_words(more.values(), &out).code() ==
        StatusCode::kUnsupported);
}

// Long strings next to short ones: a block has one of them at least.
TEST(ZstdStrings, LongStringsComeBack) {
  check_encoding("zstd strings of mixed",
                 bytes_sample(6,
                              [](uint32_t i) {
                                return std::string(
                                    i % 3 == 2 ? (15u << 20) + i : 10 + i, 'x');
                              }),
                 encode_with_words);
}

}  // namespace
}  // namespace nimble::testing
