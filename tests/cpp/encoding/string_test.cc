// Plain bytes, and the layout elements that string encodings share.
#include "encoding/text_samples.h"
#include "nimble/encoding/blocks/packed_offsets.h"
#include "nimble/encoding/blocks/string_blocks.h"
#include "nimble/encoding/strings/plain_bytes.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

void check_offsets(const std::vector<uint64_t>& entries) {
  ByteBuffer head;
  PackedOffsets::write(entries, &head);
  ByteReader reader(head.span());
  auto opened = PackedOffsets::open(&reader, entries.size());
  REQUIRE(opened.has_value());
  CHECK_EQ(reader.remaining(), 0);
  for (size_t i = 0; i < entries.size(); ++i)
    CHECK_EQ(opened->get(i), entries[i]);
}

TEST(PackedOffsets, GivesBackAnyEntry) {
  check_offsets({});
  check_offsets({0});
  check_offsets({7, 7, 7});
  check_offsets(
      {uint64_t{1} << 52, (uint64_t{1} << 52) + 1, uint64_t{1} << 54});
  std::vector<uint64_t> even, uneven, bent;
  for (uint64_t i = 0; i < 3000; ++i) {
    even.push_back(i * 4104);
    uneven.push_back((i > 0 ? uneven.back() : 0) + mix(i) % 9000);
    bent.push_back(i < 1500 ? i : 1500 + (i - 1500) * 100000);
  }
  check_offsets(even);
  check_offsets(uneven);
  check_offsets(bent);
}

TEST(PackedOffsets, EvenStepsTakeNoBits) {
  ByteBuffer head;
  std::vector<uint64_t> even;
  for (uint64_t i = 1; i < 100; ++i) even.push_back(i * 4104);
  PackedOffsets::write(even, &head);
  CHECK_EQ(head.size(), 5);
}

TEST(PackedOffsets, RefusesWideDeviations) {
  ByteBuffer head;
  head.put_varint(1);
  head.put_varint(0);
  head.put_u8(57);
  head.extend(100);
  ByteReader reader(head.span());
  CHECK(!PackedOffsets::open(&reader, 2).has_value());
}

TEST(PackedLengths, EveryWidthComesBack) {
  for (uint32_t width = 0; width <= PackedLengths::kMaxWidth; ++width) {
    std::vector<uint64_t> lengths;
    for (uint64_t i = 0; i < 37; ++i) {
      lengths.push_back(mix(i) & ((uint64_t{1} << width) - 1));
    }
    if (width > 0) lengths[5] = uint64_t{1} << (width - 1);
    ByteBuffer head;
    PackedLengths::write(lengths, &head);
    ByteReader reader(head.span());
    auto opened = PackedLengths::open(&reader);
    REQUIRE(opened.has_value());
    // Exactly the bytes that follow a block's checksum.
    std::vector<uint8_t> block(8 + opened->packed_size(37));
    pack_sequential(lengths, opened->width(), block.data() + 8);
    std::vector<uint64_t> ends(37);
    opened->running_ends(block.data() + 8, 37, ends.data());
    uint64_t sum = 0;
    for (uint32_t i = 0; i < 37; ++i) {
      CHECK_EQ(opened->get(block.data() + 8, i), lengths[i]);
      CHECK_EQ(ends[i], sum += lengths[i]);
    }
    for (uint32_t from = 0; from <= 37; ++from) {
      for (uint32_t to = from; to <= 37; ++to) {
        CHECK_EQ(opened->sum(block.data() + 8, from, to),
                 (to > 0 ? ends[to - 1] : 0) - (from > 0 ? ends[from - 1] : 0));
      }
    }
  }
}

TEST(PackedLengths, RefusesLengthsOf48BitsAndMore) {
  for (const uint64_t width : {uint64_t{49}, uint64_t{255}}) {
    const std::vector<uint8_t> head = {static_cast<uint8_t>(width)};
    ByteReader reader(head);
    CHECK(!PackedLengths::open(&reader).has_value());
  }
  ByteBuffer head;
  head.put_u8(0);
  head.put_varint(uint64_t{1} << 48);
  ByteReader reader(head.span());
  CHECK(!PackedLengths::open(&reader).has_value());
}

TEST(PlainBytes, AnyStringsComeBack) {
  for (const NamedSample& s : nasty_samples()) {
    check_encoding("plain bytes of " + s.name, s.sample, encode_plain_bytes);
  }
}

TEST(PlainBytes, LargeSegmentsComeBack) {
  for (const NamedSample& s : large_samples()) {
    check_encoding("plain bytes of " + s.name, s.sample, encode_plain_bytes);
  }
}

TEST(PlainBytes, SizesAtBlockEdges) {
  for (const uint32_t n : kSizes) {
    check_encoding(
        "short strings",
        bytes_sample(n,
                     [](uint32_t i) {
                       return std::to_string(mix(i) >> (mix(i + 7) % 64));
                     }),
        encode_plain_bytes);
  }
}

TEST(PlainBytes, LookupReadsOneSmallBlock) {
  const Sample sample = bytes_sample(131072, comment);
  SegmentBuilder builder;
  REQUIRE(encode_plain_bytes(sample.values(), &builder).is_ok());
  ByteReader head(builder.head.span());
  auto decoder = open_decoder(
      &head, {ValueType::bytes(), sample.size, builder.body.size(), 0});
  REQUIRE(decoder.has_value());
  for (const uint32_t row : {0u, 77777u, 131071u}) {
    std::vector<ByteRange> ranges;
    (*decoder)->append_ranges(row, row + 1, &ranges);
    REQUIRE(ranges.size() == 1);
    CHECK(ranges[0].end - ranges[0].begin < 9000);
  }
}

// The example of docs/format/encodings_strings.md.
TEST(PlainBytes, BytesOfTheDocumentedExample) {
  const std::vector<std::string> strings = {"ab", "", "xyz"};
  const Sample sample = bytes_sample(3, [&](uint32_t i) { return strings[i]; });
  SegmentBuilder builder;
  REQUIRE(encode_plain_bytes(sample.values(), &builder).is_ok());
  CHECK_EQ(hex(builder.head.span()), "14 08 02 00 0e");
  CHECK_EQ(hex(builder.body.span()),
           "26 dd 98 ea ca da 07 9c 32 61 62 78 79 7a");
}

}  // namespace
}  // namespace nimble::testing
