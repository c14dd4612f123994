#include "nimble/base/byte_reader.h"

#include "nimble/memory/byte_buffer.h"
#include "testing/check.h"

namespace nimble {
namespace {

TEST(ByteReader, ReadsWhatByteBufferWrote) {
  ByteBuffer out;
  out.put<uint8_t>(7);
  out.put<int16_t>(-2);
  out.put<uint32_t>(0xdeadbeef);
  out.put<double>(-0.5);
  out.put_varint(300);
  out.put_sized(as_bytes("text"));
  ByteReader in(out.span());
  CHECK_EQ(in.get_u8(), 7);
  CHECK_EQ(in.get<int16_t>(), -2);
  CHECK_EQ(in.get<uint32_t>(), 0xdeadbeef);
  CHECK_EQ(in.get<double>(), -0.5);
  CHECK_EQ(in.get_varint(), 300);
  CHECK_EQ(as_string(in.get_sized()), "text");
  CHECK(in.ok());
  CHECK_EQ(in.remaining(), 0);
  CHECK(in.status("x").is_ok());
}

TEST(ByteReader, VarintsOfEveryLength) {
  for (uint32_t bit = 0; bit < 64; ++bit) {
    for (const uint64_t v :
         {uint64_t{1} << bit, (uint64_t{1} << bit) - 1, ~uint64_t{0} << bit}) {
      ByteBuffer out;
      out.put_varint(v);
      CHECK(out.size() <= 10);
      ByteReader in(out.span());
      CHECK_EQ(in.get_varint(), v);
      CHECK(in.ok());
      CHECK_EQ(in.remaining(), 0);
      // Every proper prefix is truncated input.
      for (size_t n = 0; n < out.size(); ++n) {
        ByteReader cut(out.span().first(n));
        CHECK_EQ(cut.get_varint(), 0);
        CHECK(!cut.ok());
      }
    }
  }
}

TEST(ByteReader, VarintsPast64BitsFail) {
  const uint8_t nine[] = {0xff, 0xff, 0xff, 0xff, 0xff,
                          0xff, 0xff, 0xff, 0xff, 0x01};
  ByteReader largest(nine);
  CHECK_EQ(largest.get_varint(), UINT64_MAX);
  CHECK(largest.ok());
  uint8_t more[10];
  std::memcpy(more, nine, 10);
  more[9] = 0x02;  // bit 64
  ByteReader too_large(more);
  CHECK_EQ(too_large.get_varint(), 0);
  CHECK(!too_large.ok());
  more[9] = 0x81;  // an eleventh byte follows
  ByteReader too_long(more);
  CHECK_EQ(too_long.get_varint(), 0);
  CHECK(!too_long.ok());
}

TEST(ByteReader, FailureSticks) {
  const uint8_t bytes[] = {1, 2, 3, 4, 5};
  ByteReader in(bytes);
  CHECK_EQ(in.get<uint16_t>(), 0x0201);
  CHECK_EQ(in.get<uint32_t>(), 0);  // three bytes are left
  CHECK(!in.ok());
  CHECK_EQ(in.remaining(), 0);
  CHECK_EQ(in.get_u8(), 0);  // would be available without the failure
  CHECK(in.get_bytes(0).empty());
  const Status status = in.status("header");
  CHECK(status.code() == StatusCode::kCorrupt);
  CHECK(status.message().find("header") != std::string_view::npos);
}

TEST(ByteReader, LengthsThatWouldWrapFail) {
  const uint8_t bytes[] = {1, 2, 3, 4};
  for (const uint64_t n :
       {uint64_t{5}, uint64_t{1} << 32, UINT64_MAX - 3, UINT64_MAX}) {
    ByteReader in(bytes);
    CHECK_EQ(in.get_u8(), 1);
    CHECK(in.get_bytes(n).empty());
    CHECK(!in.ok());
  }
  ByteBuffer out;
  out.put_varint(UINT64_MAX);
  out.put_u8(0);
  ByteReader sized(out.span());
  CHECK(sized.get_sized().empty());
  CHECK(!sized.ok());
}

TEST(ByteReader, NothingHasNothing) {
  ByteReader in(ByteSpan{});
  CHECK(in.ok());
  CHECK(in.get_bytes(0).empty());
  CHECK(in.ok());
  CHECK_EQ(in.get<uint64_t>(), 0);
  CHECK(!in.ok());
}

TEST(Bytes, InBoundsNeverWraps) {
  CHECK(in_bounds(0, 0, 0));
  CHECK(in_bounds(10, 0, 10));
  CHECK(in_bounds(3, 7, 10));
  CHECK(!in_bounds(3, 8, 10));
  CHECK(!in_bounds(11, 0, 10));
  CHECK(!in_bounds(1, UINT64_MAX, 10));
  CHECK(!in_bounds(UINT64_MAX, 2, 10));
  CHECK(in_bounds(0, UINT64_MAX, UINT64_MAX));
}

TEST(ByteBuffer, AlignsWithZeros) {
  ByteBuffer out;
  out.put_u8(0xff);
  out.align(8);
  CHECK_EQ(out.size(), 8);
  for (size_t i = 1; i < 8; ++i) CHECK_EQ(out.data()[i], 0);
  out.align(8);
  CHECK_EQ(out.size(), 8);
}

}  // namespace
}  // namespace nimble
