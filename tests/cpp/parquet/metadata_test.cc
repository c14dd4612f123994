// Thrift values and page positions in hostile bytes.
#include "nimble/parquet/metadata.h"

#include "nimble/memory/byte_buffer.h"
#include "nimble/parquet/thrift_reader.h"
#include "testing/check.h"

namespace nimble::parquet {
namespace {

using Bytes = std::vector<uint8_t>;

TEST(ThriftReader, ElementsThatAreBoolsTakeAByte) {
  // Without a byte for each, a list could be walked once for each of its
  // fields.
  const Bytes bytes{0x32, 1, 2, 1, 77};
  ThriftReader in(bytes);
  in.read_list([&in](ThriftReader::Type type) { in.skip_element(type); });
  CHECK(in.ok());
  CHECK_EQ(in.position(), 4);
}

TEST(ThriftReader, FieldIdsAbove16BitsAreRefused) {
  ByteBuffer bytes;
  bytes.put<uint8_t>(0x05);              // an i32 whose id follows,
  bytes.put_varint(0xfffffffffffffffe);  // the greatest: id + 1 would overflow
  bytes.put<uint8_t>(0);
  bytes.put<uint8_t>(0x15);
  bytes.put<uint8_t>(0);
  bytes.put<uint8_t>(0);
  ThriftReader in(bytes.span());
  int fields = 0;
  in.read_struct([&fields](int64_t, ThriftReader::Type) {
    ++fields;
    return false;
  });
  CHECK(!in.ok());
  CHECK_EQ(fields, 0);
}

TEST(CheckPages, PagesThatOverlapAreCorrupt) {
  // Many pages at one place would make few bytes hold many rows.
  ChunkPages chunk;
  chunk.pages = {{100, 50, 0}, {150, 50, 10}};
  CHECK(check_pages(chunk, 1000, 20).is_ok());
  chunk.pages[1].offset = 149;
  CHECK(check_pages(chunk, 1000, 20).code() == StatusCode::kCorrupt);
  chunk.pages[1].offset = 100;
  CHECK(check_pages(chunk, 1000, 20).code() == StatusCode::kCorrupt);
}

}  // namespace
}  // namespace nimble::parquet
