// narrow: decimals.
#include "encoding/encoding_conformance.h"
#include "nimble/encoding/ints/narrow.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

Sample decimals(uint32_t width, uint32_t n, uint64_t limit) {
  return fixed_sample(ValueType::fixed(width, true), n,
                      [&](uint32_t i, uint8_t* p) {
                        const int64_t v = static_cast<int64_t>(mix(i) % limit) -
                                          static_cast<int64_t>(limit / 2);
                        std::memset(p, v < 0 ? 0xff : 0, width);
                        store(p, v);
                      });
}

TEST(Narrow, Conforms) {
  for (const uint32_t n : kSizes) {
    for (const uint32_t width : {16u, 32u}) {
      for (const uint64_t limit : {uint64_t{1000}, uint64_t{1} << 63}) {
        check_encoding("decimal", decimals(width, n, limit),
                       [](const Values& v, SegmentBuilder* out) {
                         return encode_narrow(v, narrowed(v), {}, out);
                       });
      }
    }
  }
}

TEST(Narrow, RefusesWideValues) {
  for (const uint32_t width : {16u, 32u}) {
    for (const uint32_t row : {0u, 1u, 1024u, 1999u}) {
      Sample s = decimals(width, 2000, 1000);
      CHECK_EQ(narrowed(s.values()).size(), 2000);
      s.data[row * width + width - 1] ^= 1;
      CHECK(narrowed(s.values()).empty());
    }
  }
}

}  // namespace
}  // namespace nimble::testing
