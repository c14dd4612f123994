#include "encoding/text_samples.h"
#include "nimble/encoding/blocks/digits.h"
#include "nimble/encoding/strings/template_text.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

std::string padded(uint64_t v, size_t digits) {
  std::string s = std::to_string(v);
  return s.size() < digits ? std::string(digits - s.size(), '0') + s : s;
}

Status encode_detected(const Values& values, SegmentBuilder* out) {
  const auto pattern = detect_template(values);
  if (!pattern) return Status::invalid_argument("no template");
  NIMBLE_ASSIGN_OR_RETURN(const bool has_dictionary,
                          encode_template(values, *pattern, {}, out));
  static_cast<void>(has_dictionary);
  return Status::ok();
}

bool detects(const std::vector<std::string>& strings,
             bool empty_is_null = false) {
  const uint32_t n = static_cast<uint32_t>(strings.size());
  const Sample sample = bytes_sample(n, [&](uint32_t i) { return strings[i]; });
  Values values = sample.values();
  values.empty_is_null = empty_is_null;
  return detect_template(values).has_value();
}

struct Shape {
  const char* name;
  std::string (*make)(uint32_t);
};
const Shape kShapes[] = {
    {"uuid", [](uint32_t i) { return uuid(i); }},
    {"clerk", [](uint32_t i) { return "Clerk#" + padded(mix(i) % 1000, 9); }},
    {"key", [](uint32_t i) { return "Customer#" + padded(i, 9); }},
    {"phone",
     [](uint32_t i) {
       return padded(10 + mix(i) % 25, 2) + "-" + padded(mix(i + 1) % 1000, 3) +
              "-" + padded(mix(i + 2) % 1000, 3) + "-" +
              padded(mix(i + 3) % 10000, 4);
     }},
    {"date",
     [](uint32_t i) {
       return padded(1992 + i % 7, 4) + "-" + padded(1 + i % 12, 2) + "-" +
              padded(1 + i % 28, 2);
     }},
    {"one digit", [](uint32_t i) { return std::to_string(i % 10); }},
    {"one hex digit",
     [](uint32_t i) { return std::string(1, "0123456789ABCDEF"[i % 16]); }},
    {"18 digits",
     [](uint32_t i) { return padded(mix(i) % 1000000000000000000, 18); }},
    {"37 digits",
     [](uint32_t i) {
       return padded(mix(i) % 1000000000000000000, 18) +
              padded(mix(~i) % 10000000000000000000u, 19);
     }},
    {"128 digits and letters",
     [](uint32_t i) {
       return uuid(i) + uuid(i + 9) + uuid(i + 99) + std::string(20, '.');
     }},
    {"nul and ff",
     [](uint32_t i) { return std::string("\0\xff", 2) + padded(i, 6) + '\0'; }},
    {"both cases",
     [](uint32_t i) {
       std::string s = uuid(i);
       for (size_t p = 24; p < s.size(); ++p) {
         if (s[p] >= 'a') s[p] = static_cast<char>(s[p] - 32);
       }
       return s;
     }},
    {"digit after hex",
     [](uint32_t i) {
       return uuid(i).substr(0, 9) + "n" + padded(i, 7) + "z";
     }},
};

TEST(Template, EveryShapeComesBack) {
  for (const Shape& shape : kShapes) {
    check_encoding(shape.name, bytes_sample(2500, shape.make), encode_detected);
  }
}

TEST(Template, SizesAtBlockEdges) {
  for (const uint32_t n : kSizes) {
    if (n < 2) continue;  // one string is all literals
    check_encoding("uuid", bytes_sample(n, kShapes[0].make), encode_detected);
  }
}

TEST(Template, ExtremeLimbs) {
  const std::vector<std::string> strings = {
      "999999999999999999ffffffffffffffff",
      "000000000000000000g000000000000000"};
  CHECK(!detects(strings));
  check_encoding(
      "extremes",
      bytes_sample(4,
                   [](uint32_t i) {
                     return i % 2 ? "999999999999999999-ffffffffffffffff"
                                  : "000000000000000000-0000000000000000";
                   }),
      encode_detected);
}

TEST(Template, WhatHasNoShapeIsRefused) {
  CHECK(!detects({}));
  CHECK(!detects({""}));
  CHECK(!detects({"same", "same"}));
  CHECK(!detects({"a1", "a22"}));
  CHECK(!detects({"1g", "1h"}));
  CHECK(!detects({"aB", "Ab", "11"}));
  CHECK(!detects({"12", ""}));
  CHECK(detects({"12", "13"}));
  CHECK(detects({"1f", "1e"}));
  CHECK(!detects({std::string(129, '1'), std::string(129, '2')}));
  // A difference after the rows that are sampled first.
  std::vector<std::string> late(1000, "12");
  late[1] = "13";
  CHECK(detects(late));
  late[999] = "1x";
  CHECK(!detects(late));
}

TEST(Template, NullsBecomeTheStringBeforeThem) {
  const std::vector<std::string> strings = {"", "", "a07", "", "a09", ""};
  CHECK(detects(strings, true));
  CHECK(!detects({"", ""}, true));
  const Sample sample = bytes_sample(6, [&](uint32_t i) { return strings[i]; });
  Values values = sample.values();
  values.empty_is_null = true;
  SegmentBuilder builder;
  REQUIRE(encode_detected(values, &builder).is_ok());
  ByteReader head(builder.head.span());
  auto decoder =
      open_decoder(&head, {ValueType::bytes(), 6, builder.body.size(), 0});
  REQUIRE(decoder.has_value());
  BytesSink sink;
  Output out;
  out.bytes = &sink;
  const SegmentBody body{builder.body.data(), builder.body.size(), true};
  REQUIRE((*decoder)->decode(body, 0, 6, out).is_ok());
  CHECK_EQ(as_string(sink.data.span()), "a07a07a07a07a09a09");
  CHECK_EQ(sink.end_of(5), 18);
}

TEST(Template, ValuesWithMoreDigitsThanTheirLimbAreRefused) {
  TemplatePattern pattern;
  pattern.length = 2;
  pattern.digit_positions = {0, 1};
  for (const DigitKind kind : {DigitKind::kDecimal, DigitKind::kHexLower}) {
    pattern.limbs = {{kind, 2}};
    const TemplateFormatter formatter(pattern);
    const uint64_t most = kind == DigitKind::kDecimal ? 99 : 255;
    uint8_t out[32];
    CHECK(formatter.format(&most, 1, 1, out));
    for (const uint64_t v : {most + 1, uint64_t{1} << 63, ~uint64_t{0}}) {
      CHECK(!formatter.format(&v, 1, 1, out));
    }
  }
}

TEST(Digits, EveryEightDigitWord) {
  for (uint64_t i = 0; i < 200000; ++i) {
    const uint64_t v = i < 100000 ? i * 1000 + i % 1000 : mix(i) % 100000000;
    uint8_t text[24];
    store(text, decimal_digits(v));
    CHECK_EQ(std::string(text, text + 8), padded(v, 8));
    CHECK_EQ(decimal_value(load<uint64_t>(text)), v);
    const uint64_t w = mix(i);
    store(text, hex_digits(w >> 32, 39));
    store(text + 8, hex_digits(w, 39));
    char want[17];
    std::snprintf(want, sizeof want, "%016llx",
                  static_cast<unsigned long long>(w));
    CHECK_EQ(std::string(text, text + 16), std::string(want));
    CHECK_EQ(hex_value(load<uint64_t>(text)), w >> 32);
    CHECK_EQ(hex_value(hex_digits(w, 7)), w & 0xffffffff);
  }
}

// The example of docs/format/encodings_strings.md.
TEST(Template, BytesOfTheDocumentedExample) {
  const std::vector<std::string> strings = {"A-07", "A-42", "A-15"};
  const Sample sample = bytes_sample(3, [&](uint32_t i) { return strings[i]; });
  SegmentBuilder builder;
  REQUIRE(encode_detected(sample.values(), &builder).is_ok());
  CHECK_EQ(hex(builder.head.span().subspan(0, 7)), "19 04 0c 41 2d 01 02");
  const auto pattern = detect_template(sample.values());
  REQUIRE(pattern.has_value());
  for (const auto& [row, want] : {std::pair{0, 7}, {1, 42}, {2, 15}}) {
    uint64_t value = 0;
    TemplateParser(*pattern).parse(as_bytes(strings[row]).data(), &value);
    CHECK_EQ(value, want);
  }
}

}  // namespace
}  // namespace nimble::testing
