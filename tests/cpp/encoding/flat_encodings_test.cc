// constant, plain and bitmap.
#include "encoding/encoding_conformance.h"
#include "nimble/encoding/bools/bool_bitmap.h"
#include "nimble/encoding/ints/constant.h"
#include "nimble/encoding/ints/plain.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

TEST(Constant, Conforms) {
  for (const uint32_t n : kSizes) {
    check_encoding("bool", bool_sample(n, [](uint32_t) { return true; }),
                   encode_constant);
    check_encoding("bytes", bytes_sample(n, [](uint32_t) { return "value"; }),
                   encode_constant);
    for (const uint32_t width : {1u, 2u, 3u, 4u, 8u, 16u, 33u}) {
      check_encoding(
          "fixed",
          fixed_sample(ValueType::fixed(width), n,
                       [&](uint32_t, uint8_t* p) { p[width - 1] = 7; }),
          encode_constant);
    }
  }
}

TEST(Constant, IsRecognised) {
  CHECK(is_constant(bool_sample(100, [](uint32_t) { return false; }).values()));
  CHECK(!is_constant(
      bool_sample(100, [](uint32_t i) { return i == 99; }).values()));
  CHECK(is_constant(bytes_sample(9, [](uint32_t) { return ""; }).values()));
  CHECK(!is_constant(
      bytes_sample(9, [](uint32_t i) { return i == 8 ? "b" : "a"; }).values()));
  CHECK(!is_constant(bytes_sample(2, [](uint32_t) {
                       return std::string(5000, 'x');
                     }).values()));
  CHECK(!is_constant(int_sample(ValueType::signed_int(4), 50, [](uint32_t i) {
                       return i / 49;
                     }).values()));
}

TEST(Plain, Conforms) {
  for (const uint32_t n : kSizes) {
    for (const uint32_t width : {1u, 2u, 4u, 5u, 8u, 16u, 3000u, 9000u}) {
      if (uint64_t{n} * width > 10000000) continue;
      check_encoding("fixed",
                     fixed_sample(ValueType::fixed(width), n,
                                  [&](uint32_t i, uint8_t* p) {
                                    for (uint32_t k = 0; k < width; ++k)
                                      p[k] = static_cast<uint8_t>(
                                          mix(uint64_t{i} * width + k));
                                  }),
                     encode_plain);
    }
  }
}

TEST(Plain, ViewPointsIntoTheBody) {
  const Sample s = double_sample(3000, [](uint32_t i) { return i / 7.0; });
  SegmentBuilder b;
  CHECK(encode_plain(s.values(), &b).is_ok());
  ByteReader head(b.head.span());
  auto opened = open_decoder(&head, {s.type, s.size, b.body.size(), 0});
  REQUIRE(opened.has_value());
  auto view = (*opened)->view({b.body.data(), b.body.size(), true}, 5, 2000);
  REQUIRE(view.has_value());
  CHECK(*view == b.body.data() + 40);
}

TEST(Bitmap, Conforms) {
  for (const uint32_t n : kSizes) {
    check_encoding("random",
                   bool_sample(n, [](uint32_t i) { return mix(i) % 2 == 0; }),
                   encode_bitmap);
    check_encoding("ones", bool_sample(n, [](uint32_t) { return true; }),
                   encode_bitmap);
  }
}

}  // namespace
}  // namespace nimble::testing
