#include "nimble/encoding/symbols/fsst.h"
#include "encoding/text_samples.h"
#include "nimble/encoding/symbols/fsst_compressor.h"
#include "nimble/encoding/symbols/fsst_training.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

Status encode_trained(const Values& values, SegmentBuilder* out) {
  return encode_fsst(values, train_fsst(sample_strings(values, 16384)), out);
}

FsstTable table_of(const std::vector<std::string>& symbols) {
  FsstTable table;
  for (const std::string& s : symbols) {
    FsstSymbol symbol{0, static_cast<uint32_t>(s.size())};
    std::memcpy(&symbol.bytes, s.data(), s.size());
    table.add(symbol);
  }
  return table;
}

TEST(Fsst, AnyStringsComeBack) {
  for (const NamedSample& s : nasty_samples()) {
    check_encoding("fsst of " + s.name, s.sample, encode_trained);
  }
}

TEST(Fsst, LargeSegmentsComeBack) {
  for (const NamedSample& s : large_samples()) {
    check_encoding("fsst of " + s.name, s.sample, encode_trained);
  }
}

TEST(Fsst, SizesAtBlockEdges) {
  for (const uint32_t n : kSizes) {
    check_encoding("fsst of words",
                   bytes_sample(n,
                                [](uint32_t i) {
                                  return comment(i % 1000).substr(0,
                                                                  mix(i) % 20);
                                }),
                   encode_trained);
  }
}

// Any table gives correct results: symbols that never occur or overlap, zero
// bytes, prefixes of each other, and an empty table.
TEST(Fsst, AnyTableComesBack) {
  const std::string zeros(8, '\0');
  const std::vector<FsstTable> tables = {
      FsstTable(),
      table_of({"a"}),
      table_of({"ab", "abc", "abcdefgh"}),
      table_of({zeros.substr(0, 1), zeros.substr(0, 2), zeros.substr(0, 3)}),
      table_of({zeros}),
      table_of({"\xff", "\xff\xff", "\xff\xff\xff\xff"})};
  for (const FsstTable& table : tables) {
    check_encoding(
        "fsst of prefixes",
        bytes_sample(3000,
                     [](uint32_t i) {
                       return std::string("abcdefghabcabab").substr(0, i % 16) +
                              std::string(i % 11, '\0') +
                              std::string(i % 6, '\xff');
                     }),
        [&](const Values& v, SegmentBuilder* out) {
          return encode_fsst(v, table, out);
        });
  }
}

TEST(Fsst, CodesThatEndInAnEscapeAreRefused) {
  const FsstTable table = table_of({"a", "bc"});
  uint8_t out[128];
  const std::vector<uint8_t> good = {0, 1, 255, 'z', 1};
  uint8_t* end = table.decompress(good.data(), good.data() + good.size(), out);
  REQUIRE(end != nullptr);
  CHECK_EQ(std::string(out, end), "abczbc");
  CHECK_EQ(table.decompressed_size(good.data(), good.data() + good.size()), 6);
  for (const std::vector<uint8_t>& bad : {std::vector<uint8_t>{255},
                                          {0, 0, 0, 255},
                                          {0, 1, 255, 255, 255},
                                          {1, 1, 1, 1, 1, 1, 1, 255},
                                          {255, 255, 255}}) {
    CHECK(table.decompress(bad.data(), bad.data() + bad.size(), out) ==
          nullptr);
  }
  const std::vector<uint8_t> unknown = {0, 2, 254, 0};
  end = table.decompress(unknown.data(), unknown.data() + 4, out);
  CHECK_EQ(std::string(out, end), "aa");
}

// Strings decompressed together give the same bytes as separately.
TEST(Fsst, PositionsOfCodesDecompressedTogether) {
  const FsstTable table = table_of({"a", "bc", "longlong"});
  const std::vector<uint8_t> codes = {0, 2,   255, 255, 1, 1, 0, 2, 0, 0, 0,
                                      0, 255, 'z', 2,   1, 0, 0, 0, 0, 0};
  for (size_t n = 0; n <= codes.size(); ++n) {
    uint8_t alone[256], together[256];
    uint32_t positions[32];
    uint8_t* end = table.decompress(codes.data(), codes.data() + n, alone);
    CHECK_EQ(table.decompress_together(codes.data(), n, together, positions),
             end != nullptr);
    if (end == nullptr) continue;
    CHECK_EQ(positions[n], end - alone);
    CHECK(std::equal(alone, end, together));
    if (n > 3) CHECK(positions[3] == FsstTable::kInEscape);
    if (n > 4) CHECK_EQ(positions[4], 10);
  }
}

TEST(Fsst, TableOf256SymbolsIsRefused) {
  ByteBuffer head;
  for (int i = 0; i < 8; ++i) head.put_u8(32);
  head.extend(32 * 36);
  ByteReader reader(head.span());
  CHECK(!FsstTable::open(&reader).has_value());
}

TEST(Fsst, TrainingIsDeterministicAndShrinksText) {
  const Sample sample = bytes_sample(20000, comment);
  const Values values = sample.values();
  SegmentBuilder first, second;
  REQUIRE(encode_trained(values, &first).is_ok());
  REQUIRE(encode_trained(values, &second).is_ok());
  CHECK(first.head.take() == second.head.take());
  const std::vector<uint8_t> body = first.body.take();
  CHECK(body == second.body.take());
  uint64_t raw = 0;
  for (const std::string& s : sample.strings) raw += s.size();
  CHECK(body.size() < raw * 45 / 100);
}

// One symbol in ten consecutive strings, across the four lanes.
TEST(Fsst, CompressionGivesTheLengthOfEachString) {
  const FsstMatcher matcher(table_of({"abcdefgh"}));
  std::vector<ByteSlice> slices;
  const std::string text = "abcdefghabcdefghx";
  for (const size_t n : {0, 8, 0, 16, 17, 1, 0, 0, 9, 7}) {
    slices.push_back({as_bytes(text).data(), n});
  }
  AlignedBuffer codes;
  std::vector<uint64_t> lengths(slices.size());
  matcher.compress(slices, &codes, lengths.data());
  const std::vector<uint64_t> want = {0, 1, 0, 2, 4, 2, 0, 0, 3, 14};
  CHECK(lengths == want);
  CHECK_EQ(codes.size(), 26);
}

// The example of docs/format/encodings_strings.md.
TEST(Fsst, BytesOfTheDocumentedExample) {
  const std::vector<std::string> strings = {"abcd", "ab!", "cd"};
  const Sample sample = bytes_sample(3, [&](uint32_t i) { return strings[i]; });
  SegmentBuilder builder;
  REQUIRE(encode_fsst(sample.values(), table_of({"d", "ab", "abc"}), &builder)
              .is_ok());
  CHECK_EQ(hex(builder.head.span()),
           "15 01 01 01 00 00 00 00 00 64 61 62 61 62 63 09 08 02 00 11");
  CHECK_EQ(hex(builder.body.span()),
           "73 92 58 af eb cb e7 d0 3e 02 00 01 ff 21 ff 63 00");
}

}  // namespace
}  // namespace nimble::testing
