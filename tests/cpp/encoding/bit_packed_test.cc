#include "nimble/encoding/ints/bit_packed.h"

#include "encoding/encoding_conformance.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

Status encode(const Values& v, SegmentBuilder* out) {
  return encode_bit_packed(v, out);
}

TEST(BitPacked, Conforms) {
  for (const uint32_t n : kSizes) {
    for (const uint32_t width : {1u, 2u, 4u, 8u}) {
      for (const uint32_t bits : {1u, 5u, 7u, 8 * width - 1, 8 * width}) {
        const auto make = [&](uint32_t i) { return mix(i) & low_bits(bits); };
        if (n == 131072 && bits != 5) continue;
        check_encoding("unsigned",
                       int_sample(ValueType::unsigned_int(width), n, make),
                       encode);
        check_encoding("signed",
                       int_sample(ValueType::signed_int(width), n,
                                  [&](uint32_t i) { return make(i) - 9; }),
                       encode);
      }
    }
  }
}

TEST(BitPacked, WidthPerBlockWhereItSaves) {
  const Sample s = int_sample(ValueType::signed_int(8), 5000, [](uint32_t i) {
    return mix(i) >> (i < 1024 ? 20 : 60);
  });
  check_encoding("mixed widths", s, encode);
  CHECK(encoded_bytes(s, encode) < 8000);
}

TEST(BitPacked, PatchesHoldOutliers) {
  for (const bool is_signed : {false, true}) {
    for (const uint32_t n : {70u, 1024u, 4100u, 131072u}) {
      const Sample s =
          int_sample({ValueKind::kInt, 8, is_signed}, n, [](uint32_t i) {
            return i % 100 == 3 ? mix(i) : 1000 + mix(i) % 128;
          });
      check_encoding("patched", s, [](const Values& v, SegmentBuilder* out) {
        return encode_bit_packed_patched(v, block_min_max(v), 7, {}, out);
      });
    }
  }
}

TEST(BitPacked, SearchFindsLowerBound) {
  const Sample s = int_sample(ValueType::signed_int(8), 5000, [](uint32_t i) {
    return static_cast<uint64_t>(int64_t{i} / 3 * 2 - 1000);
  });
  SegmentBuilder b;
  CHECK(encode(s.values(), &b).is_ok());
  ByteReader head(b.head.span());
  head.get_u8();
  auto opened =
      BitPackedDecoder::open(&head, {s.type, s.size, b.body.size(), 0});
  REQUIRE(opened.has_value());
  const SegmentBody body{b.body.data(), b.body.size(), true};
  const auto* v = reinterpret_cast<const int64_t*>(s.data.data());
  for (const auto& [begin, end] : {std::pair{0u, 5000u},
                                   {1u, 1u},
                                   {700u, 2049u},
                                   {1024u, 2048u},
                                   {4999u, 5000u}}) {
    for (int64_t target = -1003; target < 2400; target += 7) {
      uint32_t row = 0;
      CHECK((*opened)
                ->search(body, begin, end, static_cast<uint64_t>(target), &row)
                .is_ok());
      CHECK_EQ(row, std::lower_bound(v + begin, v + end, target) - v);
    }
  }
}

}  // namespace
}  // namespace nimble::testing
