// Parts interleaved with pieces of other parts. check_encoding() tests that
// every encoding can read its pieces.
#include "nimble/encoding/core/side_by_side.h"

#include <algorithm>

#include "encoding/sample.h"
#include "nimble/base/bitmap.h"
#include "nimble/encoding/bools/bool_bitmap.h"
#include "nimble/encoding/ints/bit_packed.h"
#include "nimble/encoding/ints/plain.h"
#include "nimble/encoding/ints/present_values.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

std::unique_ptr<Decoder> open_head(const ByteBuffer& head,
                                   const ValueType& type, uint32_t size,
                                   uint64_t body_size) {
  DecodeContext context;
  context.type = type;
  context.num_values = size;
  context.body_size = body_size;
  ByteReader reader(head.span());
  auto opened = open_decoder(&reader, context);
  CHECK(opened.has_value());
  CHECK(reader.remaining() == 0);
  return opened ? std::move(opened).value() : nullptr;
}

// The largest gap between the bytes that the row needs of these segments.
uint64_t largest_gap(const std::vector<const Decoder*>& segments,
                     uint32_t row) {
  std::vector<ByteRange> ranges;
  for (const Decoder* d : segments) d->append_ranges(row, row + 1, &ranges);
  std::sort(ranges.begin(), ranges.end(),
            [](const auto& a, const auto& b) { return a.begin < b.begin; });
  uint64_t gap = 0;
  for (size_t i = 1; i < ranges.size(); ++i) {
    const uint64_t end = ranges[i - 1].end;
    gap = std::max(gap, ranges[i].begin - std::min(ranges[i].begin, end));
  }
  return gap;
}

// All rows except those whose decimal number contains a 3, which gives long and
// short runs.
bool has_three(uint32_t i) {
  for (; i > 0; i /= 10) {
    if (i % 10 == 3) return true;
  }
  return false;
}

TEST(SideBySide, ValuesAndTheirValidityAreNear) {
  const ValueType type = ValueType::signed_int(8);
  const Sample sample = int_sample(type, kSegmentValues, [](uint32_t i) {
    return has_three(i) ? 0 : mix(i) >> 30;
  });
  std::vector<uint8_t> valid(kSegmentValues / 8);
  for (uint32_t i = 0; i < sample.size; ++i) {
    if (!has_three(i)) set_bit(valid.data(), i);
  }
  SegmentBuilder values;
  ByteBuffer validity;
  const uint8_t zeros[8] = {};
  CHECK(encode_present_values(sample.values(), zeros, valid.data(), {}, &values,
                              &validity)
            .is_ok());
  const uint64_t before = values.body.size();
  const std::vector<SegmentHead> heads{
      {&values.head, type, sample.size, 0, before},
      {&validity, ValueType::boolean(), sample.size, 0, before}};
  const auto laid = lay_side_by_side(heads, &values.body);
  CHECK(laid.has_value() && *laid);
  CHECK(values.body.size() >= before && values.body.size() < before + 2048);

  const uint64_t size = values.body.size();
  const auto of_values = open_head(values.head, type, sample.size, size);
  const auto of_validity =
      open_head(validity, ValueType::boolean(), sample.size, size);
  for (uint32_t row = 0; row < sample.size; row += 511) {
    CHECK(largest_gap({of_values.get(), of_validity.get()}, row) <= kNearBytes);
  }
  const SegmentBody body{values.body.data(), size, true};
  std::vector<uint8_t> got(kSegmentValues / 8 + AlignedBuffer::kSlack);
  Output out;
  out.data = got.data();
  CHECK(of_validity->decode(body, 0, sample.size, out).is_ok());
  CHECK(std::equal(valid.begin(), valid.end(), got.begin()));
  for (uint32_t row = 0; row < sample.size; row += 97) {
    uint64_t value = 0;
    CHECK(of_values->value(body, row, &value).is_ok());
    CHECK(value == load<uint64_t>(sample.data.data() + uint64_t{row} * 8));
  }
}

TEST(SideBySide, OnePartStaysWhole) {
  const Sample sample = int_sample(ValueType::signed_int(8), 50000, mix);
  SegmentBuilder out;
  CHECK(encode_plain(sample.values(), &out).is_ok());
  const std::vector<uint8_t> head(out.head.span().begin(),
                                  out.head.span().end());
  const std::vector<SegmentHead> heads{
      {&out.head, sample.type, sample.size, 0, out.body.size()}};
  const auto laid = lay_side_by_side(heads, &out.body);
  CHECK(laid.has_value() && !*laid);
  CHECK(std::equal(head.begin(), head.end(), out.head.data()));
}

// Opens a bitmap of 3,000 values, in blocks of 136, 136 and 127 bytes, with
// this description of its part.
bool opens(const std::vector<uint64_t>& part, uint64_t body_size) {
  ByteBuffer head;
  head.put_u8(static_cast<uint8_t>(EncodingId::kBitmap));
  for (const uint64_t v : part) head.put_varint(v);
  DecodeContext context;
  context.type = ValueType::boolean();
  context.num_values = 3000;
  context.body_size = body_size;
  ByteReader reader(head.span());
  return open_decoder(&reader, context).has_value();
}

TEST(SideBySide, RefusesPiecesThatAreNotPossible) {
  CHECK(opens({0, 399}, 399));
  CHECK(opens({1, 2, 0, 136, 1, 263}, 407));
  CHECK(opens({1, 3, 5, 136, 0, 136, 2, 127}, 455));
  CHECK(!opens({1, 3, 5, 136, 0, 136, 2, 127}, 454));  // ends past the body
  CHECK(!opens({1, 1, 0, 399}, 399));                  // one piece
  CHECK(!opens({1, 2, 0, 137, 1, 262}, 1000));         // a block is split
  CHECK(!opens({1, 2, 0, 64, 0, 335}, 1000));
  CHECK(!opens({1, 3, 0, 136, 0, 0, 0, 263}, 1000));  // an empty piece
  CHECK(!opens({1, 2, 0, 136, 1, 262}, 1000));        // too short
  CHECK(!opens({1, 2, 0, 136, UINT64_MAX / 8, 263}, 1000));
  CHECK(!opens({1, 2, 0, 136, 1, UINT64_MAX}, 1000));
  CHECK(!opens({1, 2, 0, 136}, 1000));
  CHECK(!opens({1, 129}, 1000));
  CHECK(!opens({1, UINT64_MAX}, 1000));
  CHECK(!opens({2, 399}, 1000));
}

}  // namespace
}  // namespace nimble::testing
