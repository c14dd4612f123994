// The worked examples of docs/format/encodings_numeric.md, byte for byte.
#include "encoding/encoding_conformance.h"
#include "nimble/encoding/dictionaries/dictionary.h"
#include "nimble/encoding/dictionaries/shared_dictionary.h"
#include "nimble/encoding/ints/bit_packed.h"
#include "nimble/encoding/ints/constant.h"
#include "nimble/encoding/ints/delta.h"
#include "nimble/encoding/ints/present_values.h"
#include "nimble/encoding/ints/scaled.h"
#include "nimble/encoding/ints/split_int.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

std::string hex(ByteSpan bytes) {
  std::string text;
  for (const uint8_t b : bytes) {
    if (!text.empty()) text += ' ';
    text += "0123456789abcdef"[b / 16];
    text += "0123456789abcdef"[b % 16];
  }
  return text;
}

struct Hex {
  std::string head;
  std::string body;
};

Hex bytes_of(const Sample& sample, const Encode& encode) {
  SegmentBuilder builder;
  CHECK(encode(sample.values(), &builder).is_ok());
  return {hex(builder.head.span()), hex(builder.body.span())};
}

Sample int32s(const std::vector<int32_t>& values) {
  return int_sample(ValueType::signed_int(4),
                    static_cast<uint32_t>(values.size()),
                    [&](uint32_t i) { return values[i]; });
}

TEST(DocumentedBytes, Constant) {
  const Hex h = bytes_of(int32s({7, 7, 7}), encode_constant);
  CHECK_EQ(h.head, "01 07 00 00 00");
  CHECK_EQ(h.body, "");
}

TEST(DocumentedBytes, BitPacked) {
  const Hex h = bytes_of(int32s({-2, 5, 3, 0, -1}),
                         [](const Values& v, SegmentBuilder* out) {
                           return encode_bit_packed(v, out);
                         });
  CHECK_EQ(h.head, "09 00 12 03 00");
  CHECK_EQ(h.body, "a9 54 cc 76 7e 8b 33 4c fe ff ff ff ff ff ff ff 78 15");
}

TEST(DocumentedBytes, Delta) {
  const Hex h = bytes_of(int32s({100, 103, 107, 110, 115}), encode_delta);
  CHECK_EQ(h.head, "0a 00 1a 02");
  CHECK_EQ(
      h.body,
      "6c 61 e0 3d 1f 27 4d b0 64 00 00 00 00 00 00 00 03 00 00 00 00 00 00 00 "
      "10 02");
}

TEST(DocumentedBytes, Dictionary) {
  const Hex h = bytes_of(int32s({1000000, 5, 5, 1000000, -1, 5}),
                         [](const Values& v, SegmentBuilder* out) {
                           DistinctValues distinct;
                           CHECK(distinct.build(v, {}));
                           return encode_dictionary(distinct, {}, out);
                         });
  CHECK_EQ(h.head,
           "03 03 00 06 00 06 80 08 95 d2 7d cd 21 e2 7f bc 01 0c ff ff ff ff "
           "05 00 00 00 40 42 0f 00 06 00 0c 80 08 0b 08 de ef e5 4c a9 d4");
  CHECK_EQ(h.body, "02 01 01 02 00 01");
}

TEST(DocumentedBytes, SplitInt) {
  const Hex h = bytes_of(int32s({(7 << 8) + 2, (9 << 8) + 3, (8 << 8) + 2}),
                         [](const Values& v, SegmentBuilder* out) {
                           return encode_split_int(v, 8, {}, out);
                         });
  CHECK_EQ(h.head,
           "0d 08 00 06 00 0c 80 08 26 57 3f 6d 65 2a be ae 00 06 10 0c 80 08 "
           "3a 2b 3d 75 3b a7 d9 14");
  CHECK_EQ(h.body,
           "07 00 00 00 09 00 00 00 08 00 00 00 00 00 00 00 02 00 00 00 03 00 "
           "00 00 02 00 00 00");
}

TEST(DocumentedBytes, SharedDictionary) {
  StreamDictionary dictionary(ValueType::signed_int(4));
  const auto encode = [&](const Values& v, SegmentBuilder* out) {
    DistinctValues distinct;
    CHECK(distinct.build(v, {}));
    return encode_shared_dictionary(distinct, &dictionary, {}, out);
  };
  CHECK_EQ(bytes_of(int32s({1000000, 5, -1}), encode).head.substr(0, 5),
           "04 03");
  const Hex h = bytes_of(int32s({5, 1000000, 5, 9}), encode);
  CHECK_EQ(h.head, "04 04 00 06 00 04 80 08 0a 38 2b 1a 55 27 73 84");
  CHECK_EQ(h.body, "01 02 01 03");
  SegmentBuilder values;
  CHECK(dictionary.encode(Effort::kBalanced, &values).is_ok());
  CHECK_EQ(hex(values.head.span()), "06 00 10 80 08 e3 8b 9d 75 b9 5c 97 86");
  CHECK_EQ(hex(values.body.span()),
           "ff ff ff ff 05 00 00 00 40 42 0f 00 09 00 00 00");
}

TEST(DocumentedBytes, Present) {
  const Hex h = bytes_of(
      int32s({9, 9, 700, 9, -1, 9}), [](const Values& v, SegmentBuilder* out) {
        const uint8_t common[4] = {9};
        const uint8_t other[8] = {0x14};
        return encode_present_values(v, common, other, {}, out, nullptr);
      });
  CHECK_EQ(h.head,
           "05 02 09 00 00 00 00 12 00 09 00 06 10 08 80 08 20 58 23 bc f4 23 "
           "bf 87");
  CHECK_EQ(h.body,
           "ce 15 ca 2f f6 14 47 32 14 00 00 00 00 00 00 00 bc 02 00 00 ff ff "
           "ff ff");
}

TEST(DocumentedBytes, Scaled) {
  const Hex h = bytes_of(int32s({1000, 1060, 1120, 1000}),
                         [](const Values& v, SegmentBuilder* out) {
                           return encode_scaled(v, {1000, 0, 60}, {}, out);
                         });
  CHECK_EQ(h.head,
           "0c e8 03 00 00 00 00 00 00 00 00 00 00 00 00 00 00 3c 00 06 00 10 "
           "80 08 a0 24 0c f2 4a d5 c7 68");
  CHECK_EQ(h.body, "00 00 00 00 01 00 00 00 02 00 00 00 00 00 00 00");
}

}  // namespace
}  // namespace nimble::testing
