#include "nimble/encoding/strings/front_coded.h"

#include "encoding/text_samples.h"
#include "nimble/encoding/symbols/fsst.h"
#include "nimble/encoding/symbols/fsst_training.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

Status encode_fronts(const Values& values, SegmentBuilder* out) {
  return encode_front_coded(values, {}, out);
}

std::string path(uint64_t i) {
  return "/usr/share/doc/package-" + std::to_string(i / 40) + "/part" +
         std::to_string(100000 + i);
}

TEST(FrontCoded, AnyStringsComeBack) {
  for (const NamedSample& s : nasty_samples()) {
    check_encoding("front-coded " + s.name, s.sample, encode_fronts);
  }
}

TEST(FrontCoded, LargeSegmentsComeBack) {
  for (const NamedSample& s : large_samples()) {
    check_encoding("front-coded " + s.name, s.sample, encode_fronts);
  }
}

TEST(FrontCoded, SortedStringsComeBack) {
  for (const uint32_t n : kSizes) {
    check_encoding("front-coded paths", bytes_sample(n, path), encode_fronts);
  }
  // Each string begins with the previous one, or equals it.
  check_encoding(
      "growing strings",
      bytes_sample(1100, [](uint32_t i) { return std::string(i, 'a'); }),
      encode_fronts);
  check_encoding(
      "equal strings",
      bytes_sample(700, [](uint32_t) { return std::string(70000, 'b'); }),
      encode_fronts);
}

TEST(FrontCoded, TakesAFractionOfFsst) {
  const Sample sample = bytes_sample(20000, path);
  const uint64_t fsst =
      encoded_bytes(sample, [](const Values& v, SegmentBuilder* out) {
        return encode_fsst(v, train_fsst(sample_strings(v, 16384)), out);
      });
  CHECK(encoded_bytes(sample, encode_fronts) * 2 < fsst);
}

TEST(FrontCoded, BytesOfTheDocumentedExample) {
  const char* const strings[] = {"abc", "abd", "abcde", "abcdf"};
  const Sample sample =
      bytes_sample(4, [&](uint32_t i) { return std::string(strings[i]); });
  SegmentBuilder out;
  REQUIRE(encode_fronts(sample.values(), &out).is_ok());
  CHECK_EQ(hex(out.head.span()),
           "18 08 00 06 00 08 80 08 5a 8c 09 e6 5e da 93 5b 00 14 08 02 08 10");
  CHECK_EQ(hex(out.body.span()),
           "00 00 02 00 03 00 04 00 62 9b 08 4f a9 ef 0d e5 67 61 62 63 64 64 "
           "65 66");
}

}  // namespace
}  // namespace nimble::testing
