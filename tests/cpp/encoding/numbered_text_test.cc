#include "nimble/encoding/strings/numbered_text.h"

#include <algorithm>
#include <limits>

#include "encoding/text_samples.h"
#include "nimble/encoding/core/child.h"
#include "nimble/encoding/strings/plain_bytes.h"
#include "nimble/encoding/symbols/fsst.h"
#include "nimble/encoding/symbols/fsst_training.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

// Uses plain bytes if there are no numbers, or none that can be extracted.
Status encode_numbers(const Values& values, SegmentBuilder* out) {
  const std::optional<NumberedText> text = NumberedText::find(values);
  return text ? encode_numbered_text(values, *text, {}, out)
              : encode_plain_bytes(values, out);
}

std::string line(uint64_t i) {
  const std::string level = i % 3 == 0 ? "[INFO] " : "[WARN] ";
  const std::string hour = std::to_string(100 + i % 24).substr(1);
  return hour + ":" + std::to_string(10 + i % 50) + " " + level + "took " +
         std::to_string(mix(i) % 40000) + " ms of 1000, 0." +
         std::to_string(1000 + mix(i + 7) % 1000).substr(1);
}

Result<std::string> only_string(const SegmentBuilder& segment) {
  ByteReader head(segment.head.span());
  DecodeContext context;
  context.type = ValueType::bytes();
  context.num_values = 1;
  context.body_size = segment.body.size();
  NIMBLE_ASSIGN_OR_RETURN(const auto decoder, open_decoder(&head, context));
  AlignedBuffer body(segment.body.size());
  std::copy_n(segment.body.data(), segment.body.size(), body.data());
  BytesSink sink;
  Output out;
  out.bytes = &sink;
  SegmentBody of;
  of.data = body.data();
  of.size = segment.body.size();
  NIMBLE_RETURN_IF_ERROR(decoder->decode(of, 0, 1, out));
  return std::string(reinterpret_cast<const char*>(sink.data.data()),
                     sink.data.size());
}

// A segment of one string: a shape, and numbers as a file may contain them.
SegmentBuilder segment_of(const std::string& shape,
                          const std::vector<uint64_t>& numbers) {
  SegmentBuilder out;
  put_encoding_id(EncodingId::kNumberedText, &out);
  out.head.put_u8(static_cast<uint8_t>(numbers.size()));
  const ByteSlice slice = {reinterpret_cast<const uint8_t*>(shape.data()),
                           shape.size()};
  Values text;
  text.type = ValueType::bytes();
  text.size = 1;
  text.slices = &slice;
  REQUIRE(encode_child(text, {}, 0, &out).is_ok());
  for (const uint64_t& n : numbers) {
    Values one;
    one.type = ValueType::unsigned_int(8);
    one.size = 1;
    one.data = reinterpret_cast<const uint8_t*>(&n);
    REQUIRE(encode_child(one, {}, 0, &out).is_ok());
  }
  return out;
}

std::string read(const std::string& shape,
                 const std::vector<uint64_t>& numbers) {
  auto found = only_string(segment_of(shape, numbers));
  return found ? *found : "corrupt";
}

TEST(NumberedText, AnyStringsComeBack) {
  for (const NamedSample& s : nasty_samples()) {
    check_encoding("numbered " + s.name, s.sample, encode_numbers);
  }
}

TEST(NumberedText, TextWithNumbersComesBack) {
  for (const uint32_t n : kSizes) {
    check_encoding("numbered lines", bytes_sample(n, line), encode_numbers);
  }
  // Digits of every length, leading zeros, more numbers than supported, and
  // words that are not numbers.
  check_encoding("digits",
                 bytes_sample(3000,
                              [](uint32_t i) {
                                std::string s(mix(i) % 25, '0');
                                s += std::to_string(mix(i + 1));
                                return s.substr(mix(i + 2) % s.size());
                              }),
                 encode_numbers);
  check_encoding("many numbers",
                 bytes_sample(700,
                              [](uint32_t i) {
                                std::string s;
                                for (uint32_t k = 0; k < mix(i) % 90; ++k)
                                  s += std::to_string(mix(i + k) % 120) + ",";
                                return s;
                              }),
                 encode_numbers);
  check_encoding("ids",
                 bytes_sample(2000,
                              [](uint32_t i) {
                                return uuid(i) + "/" + std::to_string(i % 100);
                              }),
                 encode_numbers);
}

TEST(NumberedText, TakesAFractionOfFsst) {
  const Sample sample = bytes_sample(20000, line);
  const uint64_t fsst =
      encoded_bytes(sample, [](const Values& v, SegmentBuilder* out) {
        return encode_fsst(v, train_fsst(sample_strings(v, 16384)), out);
      });
  CHECK(encoded_bytes(sample, encode_numbers) * 2 < fsst);
}

TEST(NumberedText, IsForShapesThatRepeat) {
  const Sample lines = bytes_sample(2000, line);
  CHECK(estimate_numbered_text(lines.values()) < 2000 * 10);
  const Sample ids = bytes_sample(2000, uuid);
  CHECK(estimate_numbered_text(ids.values()) ==
        std::numeric_limits<double>::infinity());
  const Sample comments = bytes_sample(2000, comment);
  CHECK(estimate_numbered_text(comments.values()) ==
        std::numeric_limits<double>::infinity());
}

TEST(NumberedText, MarksSayHowANumberIsWritten) {
  CHECK_EQ(read(std::string("a\0b", 3), {17}), "a17b");
  CHECK_EQ(read(std::string("\0", 1), {0}), "0");
  CHECK_EQ(read(std::string("\0 \0", 3), {UINT64_MAX, 100000000}),
           "18446744073709551615 100000000");
  CHECK_EQ(read(std::string("\x01\x02\x08", 3), {7, 7, 99999999}),
           "70799999999");
  CHECK_EQ(read("no number", {5}), "no number");
}

TEST(NumberedText, DamageIsFound) {
  CHECK_EQ(read(std::string("\0\0", 2), {1}), "corrupt");
  CHECK_EQ(read("\x02", {100}), "corrupt");
  CHECK_EQ(read("\x08", {100000000}), "corrupt");
  const std::vector<uint64_t> none, many(17);
  CHECK_EQ(read("x", none), "corrupt");
  CHECK_EQ(read("x", many), "corrupt");
}

}  // namespace
}  // namespace nimble::testing
