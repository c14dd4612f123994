// scaled, split_int, differences, float_bits and present (of fixed widths):
// encodings that transform values for a child.
#include <cmath>

#include "encoding/encoding_conformance.h"
#include "nimble/base/bit_packing.h"
#include "nimble/base/bitmap.h"
#include "nimble/encoding/blocks/packed_offsets.h"
#include "nimble/encoding/blocks/running_sums.h"
#include "nimble/encoding/choose/nullable.h"
#include "nimble/encoding/core/int_values.h"
#include "nimble/encoding/core/part.h"
#include "nimble/encoding/floats/float_bits.h"
#include "nimble/encoding/ints/differences.h"
#include "nimble/encoding/ints/present_values.h"
#include "nimble/encoding/ints/scaled.h"
#include "nimble/encoding/ints/split_int.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

Status scaled(const Values& v, SegmentBuilder* out) {
  const uint64_t base = total_min_max(v.type, block_min_max(v)).min;
  uint64_t hint = 0;
  for (uint32_t i = 0; i < v.size && hint == 0; ++i) {
    hint = load_int(v.type, v.data, i) - base;
  }
  const auto scale = find_scale(v, base, hint);
  return encode_scaled(v, scale ? *scale : Scale{base, 0, 1}, {}, out);
}

TEST(Scaled, Conforms) {
  for (const uint32_t n : kSizes) {
    for (const uint32_t width : {1u, 2u, 4u, 8u}) {
      for (const bool is_signed : {false, true}) {
        const ValueType type{ValueKind::kInt, width, is_signed};
        check_encoding(
            "fives",
            int_sample(type, n, [](uint32_t i) { return mix(i) % 20 * 5 + 3; }),
            scaled);
        if (n > 2000) continue;
        check_encoding(
            "negative",
            int_sample(type, n,
                       [](uint32_t i) { return 0 - (mix(i) % 10 * 12 + 1); }),
            scaled);
        check_encoding("any", int_sample(type, n, mix), scaled);
        if (n < 2) continue;
        check_encoding(
            "even",
            int_sample(type, n, [](uint32_t i) { return 7 - uint64_t{i} * 3; }),
            [](const Values& v, SegmentBuilder* out) {
              return encode_even(v, {}, out);
            });
      }
    }
  }
}

TEST(Scaled, FindsTheLargestDivisor) {
  const auto of = [](uint64_t base, uint64_t divisor, uint64_t hint) {
    const Sample s =
        int_sample(ValueType::signed_int(8), 3000, [&](uint32_t i) {
          return base + (i == 0 ? 0 : mix(i) % 1000) * divisor;
        });
    const auto scale = find_scale(s.values(), base, hint);
    return scale ? scale->divisor : 1;
  };
  for (const uint64_t divisor :
       {2ull, 3ull, 5ull, 1000000ull, 86400000000ull, 1ull << 40, 3ull << 30}) {
    CHECK_EQ(of(17, divisor, divisor), divisor);
    CHECK_EQ(of(0 - (uint64_t{1} << 50), divisor, divisor * 30), divisor);
  }
  CHECK_EQ(of(5, 1, 64), 1);
  CHECK_EQ(of(0, 7, 2), 1);
  // The full range: differences need 64 bits.
  const Sample wide = int_sample(ValueType::signed_int(8), 3, [](uint32_t i) {
    return (uint64_t{1} << 63) + i * (UINT64_MAX / 5);
  });
  const auto scale =
      find_scale(wide.values(), uint64_t{1} << 63, UINT64_MAX / 5);
  CHECK(scale && scale->divisor == UINT64_MAX / 5);
}

TEST(SplitInt, Conforms) {
  for (const uint32_t n : kSizes) {
    for (const uint32_t width : {4u, 8u}) {
      for (const bool is_signed : {false, true}) {
        const ValueType type{ValueKind::kInt, width, is_signed};
        for (const uint32_t low : {1u, 7u, 8 * width - 1}) {
          if (n > 2000 && low != 7) continue;
          check_encoding("any", int_sample(type, n, mix),
                         [low](const Values& v, SegmentBuilder* out) {
                           return encode_split_int(v, low, {}, out);
                         });
        }
      }
    }
  }
}

TEST(SplitInt, OtherCutsAreRefused) {
  const auto opened = [](uint32_t width, uint8_t low) {
    SegmentBuilder made;
    const Sample sample = int_sample(ValueType::unsigned_int(8), 3, mix);
    CHECK(encode_split_int(sample.values(), 5, {}, &made).is_ok());
    made.head.data()[1] = low;
    DecodeContext context;
    context.type = ValueType::unsigned_int(width);
    context.num_values = 3;
    context.body_size = made.body.size();
    ByteReader head(made.head.span());
    return open_decoder(&head, context).has_value();
  };
  CHECK(opened(8, 5));
  CHECK(opened(8, 63));
  CHECK(!opened(8, 64));
  CHECK(!opened(8, 0));
  CHECK(!opened(2, 5));
  CHECK(!opened(4, 32));
}

TEST(RunningSums, AreThoseOfOneAfterTheOther) {
  for (const uint32_t width : {1u, 2u, 4u, 8u}) {
    for (const uint32_t n :
         {0u, 1u, 2u, 3u, 4u, 5u, 7u, 8u, 63u, 1023u, 1024u}) {
      // Bytes after the values must not change, at any alignment.
      std::vector<uint8_t> words((n + 2) * width + 1, 0xa5);
      uint8_t* const first = words.data() + 1;
      for (uint32_t i = 0; i < n; ++i) {
        store_int(width, mix(i + width), first + i * width);
      }
      add_up(width, mix(n), n, first);
      uint64_t sum = mix(n), wrong = 0;
      const ValueType type = ValueType::unsigned_int(width);
      for (uint32_t i = 0; i < n; ++i) {
        sum += mix(i + width);
        wrong += load_int(type, first, i) != (sum & low_bits(8 * width));
      }
      CHECK_EQ(wrong, 0);
      for (uint32_t i = 0; i < 2 * width; ++i) {
        CHECK_EQ(first[n * width + i], 0xa5);
      }
    }
  }
}

TEST(Differences, Conforms) {
  const auto encode = [](const Values& v, SegmentBuilder* out) {
    return v.size == 0 ? encode_values(v, {}, out)
                       : encode_differences(v, {}, out);
  };
  for (const uint32_t n : kSizes) {
    for (const uint32_t width : {1u, 2u, 4u, 8u}) {
      for (const bool is_signed : {false, true}) {
        const ValueType type{ValueKind::kInt, width, is_signed};
        check_encoding(
            "steps",
            int_sample(type, n, [](uint32_t i) { return i + i / 700 * 99; }),
            encode);
        if (n > 2000) continue;
        check_encoding("any", int_sample(type, n, mix), encode);
      }
    }
  }
}

Status float_bits(const Values& v, SegmentBuilder* out) {
  return encode_float_bits(v, {}, out);
}

TEST(FloatBits, Conforms) {
  for (const uint32_t n : kSizes) {
    check_encoding(
        "float32 as double",
        double_sample(n, [](uint32_t i) { return double{float(mix(i)) / 3}; }),
        float_bits);
    if (n > 2000) continue;
    check_encoding("specials",
                   double_sample(n,
                                 [](uint32_t i) {
                                   return i % 5 == 0
                                              ? std::bit_cast<double>(mix(i))
                                          : i % 5 == 1 ? -0.0
                                                       : std::nan("");
                                 }),
                   float_bits);
    check_encoding("bfloat16",
                   float_sample(n,
                                [](uint32_t i) {
                                  return std::bit_cast<float>(uint32_t(mix(i)) &
                                                              0xffff0000);
                                }),
                   float_bits);
  }
}

// Encodes with common value 9; rows for which is(row) is true have another
// value.
Encode present(const std::function<bool(uint32_t)>& is) {
  return [=](const Values& v, SegmentBuilder* out) {
    std::vector<uint8_t> common(v.type.width);
    common[0] = 9;
    std::vector<uint8_t> other((v.size + 63) / 64 * 8);
    for (uint32_t i = 0; i < v.size; ++i) {
      if (is(i)) set_bit(other.data(), i);
    }
    return encode_present_values(v, common.data(), other.data(), {}, out,
                                 nullptr);
  };
}

TEST(PresentValues, Conforms) {
  for (const uint32_t n : kSizes) {
    for (const uint32_t every : {1u, 2u, 50u, 3000u}) {
      const auto is = [&](uint32_t i) { return mix(i) % every == 0; };
      for (const uint32_t width : {1u, 2u, 4u, 8u}) {
        if (n > 2000 && width < 4) continue;
        check_encoding("int",
                       int_sample(ValueType::signed_int(width), n,
                                  [&](uint32_t i) {
                                    return is(i) ? mix(i) % 100 + 10 : 9;
                                  }),
                       present(is));
      }
      if (n > 2000) continue;
      for (const uint32_t width : {5u, 16u, 32u}) {
        check_encoding("fixed",
                       fixed_sample(ValueType::fixed(width), n,
                                    [&](uint32_t i, uint8_t* p) {
                                      p[0] = is(i) ? uint8_t(i) : 9;
                                    }),
                       present(is));
      }
    }
    check_encoding(
        "stretches",
        int_sample(ValueType::signed_int(8), n,
                   [](uint32_t i) { return i / 500 % 2 == 0 ? mix(i) : 9; }),
        present([](uint32_t i) { return i / 500 % 2 == 0; }));
  }
}

TEST(PresentValues, TakeNothingForNulls) {
  const uint32_t n = 100000;
  const auto is = [](uint32_t i) { return mix(i) % 2 == 0; };
  Sample s = int_sample(ValueType::signed_int(8), n,
                        [&](uint32_t i) { return is(i) ? mix(i) >> 40 : 0; });
  const Sample validity = bool_sample(n + 64, is);
  SegmentBuilder out;
  ByteBuffer validity_head;
  REQUIRE(encode_nullable(s.values(), validity.data.data(), {}, &out,
                          &validity_head));
  // 24 bits for every other row, and a bit per row.
  CHECK(out.body.size() < n * 13 / 8 + n / 50);
  REQUIRE(!validity_head.empty());
  DecodeContext context{ValueType::boolean(), n, out.body.size(), 0};
  ByteReader head(validity_head.span());
  const auto decoder = open_decoder(&head, context);
  REQUIRE(decoder);
  std::vector<uint8_t> bits(n / 8 + 1 + AlignedBuffer::kSlack);
  Output to;
  to.data = bits.data();
  REQUIRE(
      (*decoder)->decode({out.body.data(), out.body.size(), true}, 0, n, to));
  for (uint32_t i = 0; i < n; ++i) CHECK_EQ(get_bit(bits.data(), i), is(i));
}

// Counts that descend between blocks name no ranges, for any rows.
TEST(PresentValues, CountsThatDescendAreRefused) {
  constexpr uint32_t kRows = 12000;
  const ValueType type = ValueType::signed_int(8);
  const Sample others = int_sample(type, kRows, mix);
  SegmentBuilder out, values;
  REQUIRE(encode_values(others.values(), {}, &values).is_ok());
  put_encoding_id(EncodingId::kPresent, &out);
  out.head.put_varint(kRows);
  out.head.put(uint64_t{9});
  out.head.put_u8(0);
  const Sample all = bool_sample(kRows, [](uint32_t) { return true; });
  REQUIRE(encode_values(all.values(), {}, &out).is_ok());  // constant: no body
  std::vector<uint64_t> counts(num_blocks_of(kRows) - 1);
  for (size_t i = 0; i < counts.size(); ++i) {
    counts[i] = i < 8 ? 1024 * (i + 1) : 100;
  }
  counts.back() = 2000;
  PackedOffsets::write(counts, &out.head);
  out.head.put_u8(0);
  out.head.put_bytes(values.head.span());
  ByteReader reader(out.head.span());
  auto decoder = open_decoder(&reader, {type, kRows, values.body.size(), 0});
  if (!decoder) {
    CHECK(decoder.error().code() == StatusCode::kCorrupt);
    return;
  }
  std::vector<ByteRange> ranges;
  (*decoder)->append_ranges(5000, 10000, &ranges);
  CHECK(ranges.empty());
  std::vector<uint64_t> got(5000 + AlignedBuffer::kSlack);
  Output to;
  to.data = reinterpret_cast<uint8_t*>(got.data());
  const SegmentBody nothing{nullptr, values.body.size(), false};
  CHECK((*decoder)->decode(nothing, 5000, 10000, to).code() ==
        StatusCode::kCorrupt);
}

}  // namespace
}  // namespace nimble::testing
