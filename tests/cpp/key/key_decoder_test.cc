#include "nimble/key/key_decoder.h"

#include <random>

#include "testing/check.h"

namespace nimble::testing {
namespace {

KeyDecoder decoder_for(const std::vector<const char*>& formats,
                       const std::vector<SortOrder>& orders) {
  Field root;
  root.format = "+s";
  std::vector<KeyColumnSpec> specs;
  for (size_t i = 0; i < formats.size(); ++i) {
    root.children.emplace_back();
    root.children[i].format = formats[i];
    specs.push_back({{static_cast<int>(i)}, orders[i]});
  }
  REQUIRE(root.resolve("").is_ok());
  auto encoder = KeyEncoder::create(root, specs);
  REQUIRE(encoder.has_value());
  return KeyDecoder(*encoder);
}

std::vector<uint8_t> bytes_of(std::string_view hex_text) {
  std::vector<uint8_t> out;
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  for (size_t i = 0; i + 1 < hex_text.size(); i += 2) {
    out.push_back(
        static_cast<uint8_t>(digit(hex_text[i]) * 16 + digit(hex_text[i + 1])));
  }
  return out;
}

void check_corrupt(const KeyDecoder& d, std::string_view hex_text,
                   std::string_view why) {
  std::vector<DecodedColumn> out;
  const Status s = d.decode(bytes_of(hex_text), &out);
  CHECK(s.code() == StatusCode::kCorrupt);
  if (s.message().find(why) == std::string_view::npos) {
    fail(__FILE__, __LINE__,
         std::string(hex_text) + ": " + std::string(s.message()));
  }
}

TEST(KeyDecoder, MalformedKeys) {
  const SortOrder first{false, true};
  const KeyDecoder one = decoder_for({"l"}, {first});
  check_corrupt(one, "", "ends before");
  check_corrupt(one, "0180", "ends inside");
  check_corrupt(one, "018000", "ends inside");
  check_corrupt(one, "00", "ends inside");
  check_corrupt(one, "000000000000000001", "not followed by zeros");
  check_corrupt(one, "028000000000000000", "marker");
  check_corrupt(one, "01800000000000000000", "follow the key");
  const KeyDecoder two = decoder_for({"l", "u"}, {first, first});
  check_corrupt(two, "01800000000000000001010200", "escape");
  check_corrupt(two, "0180000000000000000101", "escape");
  check_corrupt(two, "01800000000000000001616263", "without an end");
  check_corrupt(two, "018000000000000000", "ends before");
  check_corrupt(decoder_for({"b"}, {{}}), "0003", "boolean");
  check_corrupt(decoder_for({"b"}, {{true, false}}), "0001", "boolean");
}

TEST(KeyDecoder, RandomBytesAreReadOrRefused) {
  std::mt19937_64 rng(9);
  const KeyDecoder d =
      decoder_for({"u", "i", "b", "z", "d:38,2", "e"},
                  {{}, {true, true}, {}, {true, false}, {}, {}});
  for (int i = 0; i < 20000; ++i) {
    std::vector<uint8_t> key(rng() % 40);
    for (uint8_t& b : key)
      b = static_cast<uint8_t>(rng() % 3 == 0 ? rng() : rng() % 3);
    std::vector<DecodedColumn> out;
    (void)d.decode(key, &out).is_ok();
    CHECK(!d.to_text(key).empty());
  }
}

TEST(KeyDecoder, Text) {
  const auto text = [](const char* format, std::string_view hex_text) {
    return decoder_for({format}, {{}}).to_text(bytes_of(hex_text));
  };
  CHECK_EQ(text("l", "00800000000000012c"), std::string("300"));
  CHECK_EQ(text("c", "0000"), std::string("-128"));
  CHECK_EQ(text("C", "00c8"), std::string("200"));
  CHECK_EQ(text("L", "00ffffffffffffffff"),
           std::string("18446744073709551615"));
  CHECK_EQ(text("l", "010000000000000000"), std::string("null"));
  CHECK_EQ(text("b", "0002"), std::string("true"));
  CHECK_EQ(text("g", "00c059200000000000"), std::string("100.5"));
  CHECK_EQ(text("e", "00be00"), std::string("1.5"));
  CHECK_EQ(text("tdD", "0080004d19"), std::string("2024-01-15"));
  CHECK_EQ(text("tdD", "0080000000"), std::string("1970-01-01"));
  CHECK_EQ(text("tsu:UTC", "008000000000000001"), std::string("1 us"));
  CHECK_EQ(text("d:10,2,64", "008000000000003039"), std::string("123.45"));
  CHECK_EQ(text("d:10,2", "0080000000000000000000000000000001"),
           std::string("0.01"));
  CHECK_EQ(text("d:10,2", "007ffffffffffffffffffffffffffffffe"),
           std::string("-0.02"));
  CHECK_EQ(text("u", "0061276201000100"),
           std::string("0x0061276201000100"));  // trailing bytes
  CHECK_EQ(text("u", "00612762010000"), std::string("'a\\'b\\x00'"));
  CHECK_EQ(text("z", "00ff00"), std::string("0xff"));
  CHECK_EQ(text("l", "00"), std::string("0x00"));
  CHECK_EQ(decoder_for({"i", "u"}, {{}, {}}).to_text(bytes_of("008000000701")),
           std::string("(7, null)"));
}

}  // namespace
}  // namespace nimble::testing
