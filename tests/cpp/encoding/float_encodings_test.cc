// alp and split_float: every bit must survive a round trip.
#include <cmath>
#include <limits>

#include "encoding/encoding_conformance.h"
#include "nimble/encoding/floats/alp.h"
#include "nimble/encoding/floats/split_float.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

Status alp(const Values& v, SegmentBuilder* out) {
  auto written = encode_alp(v, choose_alp_exponents(v), {}, out);
  if (!written) return std::move(written).error();
  return *written ? Status::ok() : Status::unsupported("too many exceptions");
}

double cents(uint32_t i) { return double(mix(i) % 1000000) / 100; }

// Values that are not decimals: each is an exception.
double odd(uint32_t i) {
  switch (i % 7) {
    case 0:
      return -0.0;
    case 1:
      return std::numeric_limits<double>::infinity();
    case 2:
      return -std::numeric_limits<double>::infinity();
    case 3:
      return std::bit_cast<double>(uint64_t{0x7ff8000000001234});
    case 4:
      return std::bit_cast<double>(uint64_t{0xfff0000000000001});
    case 5:
      return 5e-324;
    default:
      return 1.0 / 3;
  }
}

TEST(Alp, Conforms) {
  for (const uint32_t n : kSizes) {
    check_encoding("cents", double_sample(n, cents), alp);
    check_encoding("float cents",
                   float_sample(n, [](uint32_t i) { return float(cents(i)); }),
                   alp);
    check_encoding(
        "whole", double_sample(n, [](uint32_t i) { return double(i) * 1000; }),
        alp);
    if (n < 63) continue;
    check_encoding("exceptions",
                   double_sample(n,
                                 [](uint32_t i) {
                                   return mix(i) % 20 == 0 ? odd(mix(i) % 1000)
                                                           : cents(i);
                                 }),
                   alp);
    check_encoding("float exceptions",
                   float_sample(n,
                                [](uint32_t i) {
                                  return float(mix(i) % 20 == 0
                                                   ? odd(mix(i) % 1000)
                                                   : cents(i));
                                }),
                   alp);
    check_encoding(
        "exceptions first",
        double_sample(n, [](uint32_t i) { return i < 7 ? odd(i) : cents(i); }),
        alp);
  }
}

TEST(Alp, ManyExactDecimalsAndFewExceptions) {
  for (int digits = 0; digits <= 8; ++digits) {
    const Sample s = double_sample(10000, [&](uint32_t i) {
      return std::strtod((std::to_string(int(mix(i) % 100000) - 50000) + "e-" +
                          std::to_string(digits))
                             .c_str(),
                         nullptr);
    });
    // 17 bits per value, and little else
    CHECK(encoded_bytes(s, alp) < 10000 * 18 / 8 + 1000);
  }
}

TEST(SplitFloat, Conforms) {
  for (const uint32_t n : kSizes) {
    for (const uint32_t high : {1u, 7u, 16u}) {
      if (n == 131072 && high == 1) continue;
      check_encoding(
          "double",
          double_sample(n,
                        [](uint32_t i) {
                          return i % 50 == 3
                                     ? odd(i)
                                     : 1.0 / (1.0 + double(mix(i) >> 12));
                        }),
          [&](const Values& v, SegmentBuilder* out) {
            return encode_split_float(v, 64 - high, {}, out);
          });
      check_encoding(
          "float",
          float_sample(n, [](uint32_t i) { return float(mix(i)) / 7; }),
          [&](const Values& v, SegmentBuilder* out) {
            return encode_split_float(v, 32 - high, {}, out);
          });
    }
  }
}

}  // namespace
}  // namespace nimble::testing
