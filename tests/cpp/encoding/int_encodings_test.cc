// delta, run_length, dictionary, sparse and sparse_bits.
#include "encoding/encoding_conformance.h"
#include "nimble/encoding/bools/sparse_bits.h"
#include "nimble/encoding/dictionaries/dictionary.h"
#include "nimble/encoding/ints/delta.h"
#include "nimble/encoding/ints/run_length.h"
#include "nimble/encoding/ints/sparse.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

TEST(Delta, Conforms) {
  for (const uint32_t n : kSizes) {
    for (const uint32_t width : {1u, 2u, 4u, 8u}) {
      for (const bool is_signed : {false, true}) {
        const ValueType type{ValueKind::kInt, width, is_signed};
        check_encoding(
            "ascending",
            int_sample(type, n, [](uint32_t i) { return i * 5 + mix(i) % 3; }),
            encode_delta);
        if (n > 2000) continue;
        check_encoding("random",
                       int_sample(type, n, [](uint32_t i) { return mix(i); }),
                       encode_delta);
        check_encoding("steep",
                       int_sample(type, n,
                                  [](uint32_t i) {
                                    return (i < 1024 ? i : uint64_t{i} << 30) -
                                           100;
                                  }),
                       encode_delta);
      }
    }
  }
}

Status runs(const Values& v, SegmentBuilder* out) {
  return encode_run_length(v, run_ends(v, UINT32_MAX), {}, out);
}

TEST(RunLength, Conforms) {
  for (const uint32_t n : kSizes) {
    for (const uint32_t length : {1u, 3u, 100u, 5000u}) {
      if (n == 131072 && length == 3) continue;
      const auto value = [&](uint32_t i) { return mix(i / length) % 1000; };
      check_encoding("int", int_sample(ValueType::signed_int(4), n, value),
                     runs);
      if (n > 2000 && length < 100) continue;
      check_encoding("byte", int_sample(ValueType::unsigned_int(1), n, value),
                     runs);
      check_encoding(
          "bool",
          bool_sample(n, [&](uint32_t i) { return i / length % 2 == 0; }),
          runs);
      check_encoding("bytes",
                     bytes_sample(n,
                                  [&](uint32_t i) {
                                    return "value " + std::to_string(value(i));
                                  }),
                     runs);
      check_encoding(
          "fixed",
          fixed_sample(ValueType::fixed(20), n,
                       [&](uint32_t i, uint8_t* p) { store(p + 3, value(i)); }),
          runs);
    }
  }
}

TEST(RunLength, GivesUpAtTheLimit) {
  const Sample s = int_sample(ValueType::signed_int(8), 1000,
                              [](uint32_t i) { return i / 10; });
  CHECK_EQ(run_ends(s.values(), 100).size(), 100);
  CHECK_EQ(run_ends(s.values(), 99).size(), 0);
}

Status dictionary(const Values& v, SegmentBuilder* out) {
  DistinctValues distinct;
  CHECK(distinct.build(v, {}));
  return encode_dictionary(distinct, {}, out);
}

TEST(Dictionary, Conforms) {
  for (const uint32_t n : kSizes) {
    for (const uint32_t count : {1u, 2u, 200u, 300u, 5000u}) {
      if (count > 300 && n > 1025 && n < 131072) continue;
      const auto value = [&](uint32_t i) { return mix(mix(i) % count); };
      check_encoding("int", int_sample(ValueType::signed_int(8), n, value),
                     dictionary);
      check_encoding("bytes",
                     bytes_sample(n,
                                  [&](uint32_t i) {
                                    return std::string(value(i) % 40, 'a') +
                                           std::to_string(value(i) % 100);
                                  }),
                     dictionary);
      if (n > 2000) continue;
      check_encoding("short", int_sample(ValueType::unsigned_int(2), n, value),
                     dictionary);
      check_encoding(
          "float", double_sample(n, [&](uint32_t i) { return value(i) / 3.0; }),
          dictionary);
      for (const uint32_t width : {3u, 16u, 32u}) {
        check_encoding("fixed",
                       fixed_sample(ValueType::fixed(width), n,
                                    [&](uint32_t i, uint8_t* p) {
                                      p[1] = static_cast<uint8_t>(value(i)),
                                      p[width - 1] =
                                          static_cast<uint8_t>(value(i) >> 8);
                                    }),
                       dictionary);
      }
    }
  }
}

// Strings are copied with a fixed size, the longest length rounded up, and
// without offsets if all have the same length.
TEST(Dictionary, OfStringsOfEveryLength) {
  for (const uint64_t longest :
       {0u, 1u, 2u, 3u, 4u, 5u, 8u, 9u, 16u, 17u, 32u, 33u, 64u, 65u, 200u}) {
    for (const bool is_equal : {true, false}) {
      const auto text = [&](uint32_t i) {
        const uint64_t value = mix(i) % 20;
        const uint64_t length = is_equal ? longest : mix(value) % (longest + 1);
        return std::string(length, static_cast<char>('a' + value));
      };
      for (const uint32_t n : {1u, 3u, 1024u, 1027u}) {
        check_encoding("length " + std::to_string(longest),
                       bytes_sample(n, text), dictionary);
      }
    }
  }
}

TEST(Dictionary, OfEmptyStrings) {
  check_encoding("empty", bytes_sample(100, [](uint32_t) { return ""; }),
                 dictionary);
}

TEST(Dictionary, IsSortedAndBounded) {
  const Sample s = int_sample(ValueType::signed_int(8), 3000, [](uint32_t i) {
    return static_cast<uint64_t>(int64_t(mix(i) % 10) * 1000000007 -
                                 5000000000);
  });
  DistinctValues distinct;
  CHECK(distinct.build(s.values(), {}));
  REQUIRE(distinct.count() == 10);
  const auto* v = reinterpret_cast<const int64_t*>(distinct.distinct().data);
  for (int i = 1; i < 10; ++i) CHECK(v[i - 1] < v[i]);
  CHECK(distinct.build(s.values(), {10, 80}));
  CHECK(!distinct.build(s.values(), {9, 80}));
  CHECK(!distinct.build(s.values(), {10, 79}));
  const Sample small = int_sample(ValueType::signed_int(4), 100,
                                  [](uint32_t i) { return i % 7 - 3; });
  CHECK(distinct.build(small.values(), {7, 28}));
  CHECK(!distinct.build(small.values(), {6, 28}));
  CHECK(!distinct.build(small.values(), {7, 27}));
}

TEST(Sparse, Conforms) {
  for (const uint32_t n : kSizes) {
    for (const uint32_t every : {1u, 3u, 50u, 3000u}) {
      const auto rare = [&](uint32_t i) {
        return mix(i) % every == 0 || i + 1 == n;
      };
      const auto encode = [&](const Values& v, SegmentBuilder* out) {
        std::vector<uint8_t> common(v.type.width);
        common[0] = 9;
        return encode_sparse(v, common.data(), {}, out);
      };
      if (n == 131072 && every == 3) continue;
      check_encoding(
          "int",
          int_sample(ValueType::signed_int(8), n,
                     [&](uint32_t i) { return rare(i) ? mix(i) >> 30 : 9; }),
          encode);
      check_encoding("fixed",
                     fixed_sample(ValueType::fixed(16, true), n,
                                  [&](uint32_t i, uint8_t* p) {
                                    p[0] = rare(i) ? uint8_t(i) : 9;
                                  }),
                     encode);
    }
  }
}

TEST(SparseBits, Conforms) {
  for (const uint32_t n : kSizes) {
    for (const uint32_t every : {2u, 40u, 3000u}) {
      check_encoding(
          "rare ones",
          bool_sample(n, [&](uint32_t i) { return mix(i) % every == 0; }),
          encode_sparse_bits);
      check_encoding(
          "rare zeros",
          bool_sample(n, [&](uint32_t i) { return mix(i) % every != 0; }),
          encode_sparse_bits);
    }
  }
}

}  // namespace
}  // namespace nimble::testing
