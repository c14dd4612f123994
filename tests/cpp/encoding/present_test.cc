#include "nimble/encoding/strings/present.h"

#include "encoding/text_samples.h"
#include "nimble/encoding/blocks/packed_offsets.h"
#include "nimble/encoding/strings/plain_bytes.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

Status encode_some(const Values& values, SegmentBuilder* out) {
  return encode_present(values, {}, out);
}

TEST(Present, AnyStringsComeBack) {
  for (const NamedSample& s : nasty_samples()) {
    check_encoding("present of " + s.name, s.sample, encode_some);
  }
}

// Every n-th row has a string, runs of rows have one, no row has one, all rows
// have one.
TEST(Present, AnyRowsComeBack) {
  for (const uint32_t n : kSizes) {
    const auto check = [&](const char* what, auto&& has) {
      check_encoding(what,
                     bytes_sample(n,
                                  [&](uint32_t i) {
                                    return has(i) ? comment(i % 500)
                                                  : std::string();
                                  }),
                     encode_some);
    };
    check("every second", [](uint32_t i) { return mix(i) % 2 == 0; });
    check("runs", [](uint32_t i) { return i / 700 % 2 == 1; });
    check("one of 5000", [](uint32_t i) { return i % 5000 == 1030; });
    check("all", [](uint32_t) { return true; });
    check("none", [](uint32_t) { return false; });
  }
}

TEST(Present, BytesOfTheDocumentedExample) {
  const char* const strings[] = {"", "ab", "", "", "xyz"};
  const Sample sample =
      bytes_sample(5, [&](uint32_t i) { return std::string(strings[i]); });
  SegmentBuilder out;
  REQUIRE(encode_some(sample.values(), &out).is_ok());
  CHECK_EQ(hex(out.head.span()), "05 02 00 12 00 09 00 14 08 02 10 0e");
  CHECK_EQ(hex(out.body.span()),
           "06 30 1b 2e 14 b8 fa 32 12 00 00 00 00 00 00 00 f2 57 86 e6 83 cf "
           "40 c7 0e 61 62 78 79 7a");
}

// Heads that count more strings before a block than exist, or fewer than before
// the previous block.
TEST(Present, CountsThatCannotBeAreRefused) {
  const Sample sample = bytes_sample(
      3000, [](uint32_t i) { return i % 2 == 0 ? comment(i) : std::string(); });
  SegmentBuilder out;
  REQUIRE(encode_some(sample.values(), &out).is_ok());
  const ByteSpan bytes = out.head.span();
  std::vector<uint8_t> head(bytes.begin(), bytes.end());
  CHECK_EQ(head[1], 0xdc);  // 1500
  head[1] = 0xdb;           // one less than the rows that have a string
  ByteReader reader({head.data(), head.size()});
  auto decoder = open_decoder(
      &reader, {ValueType::bytes(), sample.size, out.body.size(), 0});
  if (!decoder) return;  // the strings' own head may fail
  BytesSink sink;
  Output to;
  to.bytes = &sink;
  const SegmentBody body{out.body.data(), out.body.size(), true};
  CHECK((*decoder)->decode(body, 0, sample.size, to).code() ==
        StatusCode::kCorrupt);
}

// Counts that claim no strings, for rows that all have one: append_ranges()
// then names none of the strings' bytes.
TEST(Present, CountsThatLeaveStringsOutAreRefused) {
  constexpr uint32_t kRows = 3000;
  SegmentBuilder strings;
  const Sample others = bytes_sample(kRows, comment);
  REQUIRE(encode_values(others.values(), {}, &strings).is_ok());
  for (const bool descending : {false, true}) {
    SegmentBuilder out;
    put_encoding_id(EncodingId::kPresent, &out);
    out.head.put_varint(kRows);
    out.head.put_u8(0);
    const std::vector<uint8_t> all(kRows / 8 + 8, 0xff);
    Values where;
    where.type = ValueType::boolean();
    where.size = kRows;
    where.data = all.data();
    REQUIRE(encode_values(where, {}, &out).is_ok());  // constant: no body
    CHECK(out.body.empty());
    const std::vector<uint64_t> counts =
        descending ? std::vector<uint64_t>{2000, 0}
                   : std::vector<uint64_t>{kRows, kRows};
    PackedOffsets::write(counts, &out.head);
    out.head.put_u8(0);
    out.head.put_bytes(strings.head.span());
    ByteReader reader(out.head.span());
    auto decoder = open_decoder(
        &reader, {ValueType::bytes(), kRows, strings.body.size(), 0});
    if (!decoder) {
      CHECK(decoder.error().code() == StatusCode::kCorrupt);
      continue;
    }
    for (uint32_t row = 0; row < kRows; row += 1024) {
      std::vector<ByteRange> ranges;
      (*decoder)->append_ranges(row, row + 1, &ranges);
      if (!ranges.empty()) continue;
      BytesSink sink;
      Output to;
      to.bytes = &sink;
      const SegmentBody nothing{nullptr, strings.body.size(), false};
      CHECK((*decoder)->gather(nothing, &row, 1, to).code() ==
            StatusCode::kCorrupt);
      CHECK((*decoder)->decode(nothing, row, row + 1, to).code() ==
            StatusCode::kCorrupt);
    }
  }
}

}  // namespace
}  // namespace nimble::testing
