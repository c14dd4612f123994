#include "encoding/encoding_conformance.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

constexpr uint32_t kRows = 20000;

bool starts_with(const std::string& text, const std::string& start) {
  if (text.starts_with(start)) return true;
  fail(__FILE__, __LINE__, "chose " + text + ", not " + start);
  return false;
}

Sample ints(const std::function<uint64_t(uint32_t)>& make, uint32_t n = kRows) {
  return int_sample(ValueType::signed_int(8), n, make);
}

TEST(Selection, PicksWhatTheDataIsMadeFor) {
  const auto prices = ints([](uint32_t i) { return mix(i) % 4000; });
  const auto keys =
      ints([](uint32_t i) { return uint64_t{i} * 4 + mix(i) % 4; });
  const auto codes = ints([](uint32_t i) { return mix(mix(i) % 50); });
  starts_with(chosen(ints([](uint32_t) { return 5; })), "constant");
  starts_with(chosen(prices), "bit-packed w=12");
  starts_with(chosen(ints([](uint32_t i) { return mix(i); })), "plain");
  starts_with(chosen(codes),
              "dictionary n=50 (plain 8 bytes) of bit-packed w=6");
  starts_with(chosen(ints([](uint32_t i) { return mix(i / 200); })),
              "run length");
  starts_with(
      chosen(ints([](uint32_t i) { return mix(i) % 50 == 0 ? mix(i) : 0; })),
      "sparse");
  starts_with(chosen(ints([](uint32_t i) {
                return mix(i) % 100 == 0 ? mix(i) : mix(i) % 262144;
              })),
              "bit-packed w=19 patches");
  starts_with(chosen(keys), "delta");
  starts_with(chosen(prices, Effort::kFast), "bit-packed");
  starts_with(chosen(codes, Effort::kFast), "plain");
  starts_with(
      chosen(double_sample(
          kRows, [](uint32_t i) { return double(mix(i) % 100000) / 100; })),
      "alp");
  starts_with(chosen(double_sample(
                  kRows, [](uint32_t i) { return double(mix(i)) / 1e19; })),
              "split float");
  starts_with(
      chosen(double_sample(
          kRows, [](uint32_t i) { return std::bit_cast<double>(mix(i)); })),
      "plain");
  starts_with(chosen(fixed_sample(
                  ValueType::fixed(16, true), kRows,
                  [](uint32_t i, uint8_t* p) { store(p, mix(i) % 4000); })),
              "narrow bit-packed w=12");
  starts_with(
      chosen(bool_sample(kRows, [](uint32_t i) { return mix(i) % 2 == 0; })),
      "bitmap");
  starts_with(
      chosen(bool_sample(kRows, [](uint32_t i) { return mix(i) % 100 == 0; })),
      "sparse bits");
  starts_with(
      chosen(bool_sample(kRows, [](uint32_t i) { return i / 4000 % 2 == 0; })),
      "run length");
  starts_with(
      chosen(bytes_sample(
          kRows, [](uint32_t i) { return i % 3 == 0 ? "MAIL" : "SHIP"; })),
      "dictionary n=2");
}

// Cases where the sample's runs of 64 rows and the blocks of 1024 rows differ.
TEST(Selection, PicksByWhatItTakesNotByOneRival) {
  constexpr uint32_t kSegment = 131072;
  // Sessions of about forty steps: each delta block has a reset.
  uint64_t step = 0;
  const auto episodes =
      ints([&](uint32_t i) { return mix(i) % 40 == 0 ? step = 0 : ++step; },
           kSegment);
  starts_with(chosen(episodes), "differences");
  // Events within milliseconds, then minutes without events.
  uint64_t at = 0;
  const auto bursts = ints(
      [&](uint32_t i) {
        return at += mix(i) % 100 == 0 ? mix(i) % 400000000 : mix(i) % 512;
      },
      kSegment);
  starts_with(chosen(bursts), "differences");
  // Steps of a power of two: decimals with a common divisor.
  const auto steps = double_sample(kSegment, [](uint32_t i) {
    return (double(mix(i) % 4096) - 2048) / 1024;
  });
  CHECK(chosen(steps).find("scaled by 9765625") != std::string::npos);
  // More distinct values than fit in 32 KiB.
  const auto ratios = double_sample(kSegment, [](uint32_t i) {
    return double(mix(i) % 100) / double(mix(i + kSegment) % 99 + 1);
  });
  starts_with(chosen(ratios), "dictionary");
}

TEST(Selection, RoundTripsEverything) {
  for (const uint32_t n : {0u, 1u, 64u, 65u, 1025u, 4000u, 131072u}) {
    const auto small = [](uint32_t i) { return mix(i) % 100; };
    for (const uint32_t width : {1u, 2u, 4u, 8u}) {
      check_selection("small",
                      int_sample(ValueType::signed_int(width), n, small));
      if (n > 5000) continue;
      check_selection("random",
                      int_sample(ValueType::unsigned_int(width), n, mix));
      check_selection("ascending",
                      int_sample(ValueType::unsigned_int(width), n,
                                 [](uint32_t i) { return i * 3; }));
      check_selection("runs",
                      int_sample(ValueType::signed_int(width), n,
                                 [](uint32_t i) { return mix(i / 100); }));
      check_selection("codes",
                      int_sample(ValueType::signed_int(width), n,
                                 [](uint32_t i) { return mix(mix(i) % 9); }));
      check_selection(
          "mostly", int_sample(ValueType::signed_int(width), n, [](uint32_t i) {
            return i % 40 == 0 ? mix(i) : 3;
          }));
    }
    check_selection("prices", double_sample(n, [](uint32_t i) {
                      return double(mix(i) % 100000) / 100;
                    }));
    check_selection(
        "reals", float_sample(n, [](uint32_t i) { return float(mix(i)) / 3; }));
    check_selection("decimals", fixed_sample(ValueType::fixed(32, true), n,
                                             [](uint32_t i, uint8_t* p) {
                                               store(p, mix(i) % 4000);
                                             }));
    check_selection("wide", fixed_sample(ValueType::fixed(16), n,
                                         [](uint32_t i, uint8_t* p) {
                                           store(p, mix(i)),
                                               store(p + 8, uint64_t{i});
                                         }));
    check_selection("uuid", fixed_sample(ValueType::fixed(16), n,
                                         [&](uint32_t i, uint8_t* p) {
                                           store(p, mix(i)),
                                               store(p + 8, mix(i + n));
                                         }));
    check_selection(
        "repeating",
        fixed_sample(ValueType::fixed(7), n, [](uint32_t i, uint8_t* p) {
          store(p, uint32_t(mix(i % 300)));
        }));
    check_selection(
        "bools", bool_sample(n, [](uint32_t i) { return mix(i) % 30 == 0; }));
    check_selection("modes", bytes_sample(n, [](uint32_t i) {
                      return std::string(1 + mix(i) % 3, 'x');
                    }));
  }
}

TEST(Selection, NeverMuchLargerThanPlain) {
  for (const Effort effort :
       {Effort::kBalanced, Effort::kFast, Effort::kCompact}) {
    for (uint64_t shape = 0; shape < 40; ++shape) {
      const Sample s = ints(
          [&](uint32_t i) {
            const uint64_t r = mix(i + shape * 1000003);
            return shape % 4 == 0   ? r >> shape
                   : shape % 4 == 1 ? mix(r % (1u << shape / 4))
                   : shape % 4 == 2 ? mix(i / (shape + 1)) >> shape
                                    : i * shape + (r >> (64 - shape));
          },
          5000);
      EncodeContext context;
      context.effort = effort;
      CHECK(encoded_bytes(s, [&](const Values& v, SegmentBuilder* out) {
              return encode_values(v, context, out);
            }) < 5000 * 8 + 128);
    }
  }
}

TEST(Selection, IsDeterministic) {
  const Sample s = ints([](uint32_t i) { return mix(i) % 3000; });
  SegmentBuilder a;
  SegmentBuilder b;
  CHECK(encode_values(s.values(), {}, &a).is_ok());
  CHECK(encode_values(s.values(), {}, &b).is_ok());
  CHECK(a.head.take() == b.head.take());
  CHECK(a.body.take() == b.body.take());
}

}  // namespace
}  // namespace nimble::testing
