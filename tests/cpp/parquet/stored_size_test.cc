// What snappy and lz4 pages say of their sizes.
#include "nimble/parquet/stored_size.h"

#include "testing/check.h"

namespace nimble::parquet {
namespace {

using Bytes = std::vector<uint8_t>;

bool holds(Codec codec, const Bytes& bytes, uint64_t size) {
  return check_stored_size(codec, bytes, size).is_ok();
}

TEST(StoredSize, SnappyBeginsWithItsSize) {
  const Bytes bytes{5, 4 << 2, 'h', 'e', 'l', 'l', 'o'};
  CHECK(holds(Codec::kSnappy, bytes, 5));
  CHECK(!holds(Codec::kSnappy, bytes, 6));
  CHECK(!holds(Codec::kSnappy, bytes, 4));
  CHECK(!holds(Codec::kSnappy, {}, 5));
  CHECK(!holds(Codec::kSnappy, {0x85}, 5));
}

TEST(StoredSize, Lz4IsTheSumOfItsSequences) {
  const Bytes literals{0x50, 'h', 'e', 'l', 'l', 'o'};
  CHECK(holds(Codec::kLz4Raw, literals, 5));
  CHECK(!holds(Codec::kLz4Raw, literals, 6));
  // 1 literal, a match of 4 + 15 + 255 + 3, then 5 literals.
  Bytes match{0x1f, 'a', 1, 0, 255, 3, 0x50, 'h', 'e', 'l', 'l', 'o'};
  CHECK(holds(Codec::kLz4Raw, match, 1 + 277 + 5));
  CHECK(!holds(Codec::kLz4Raw, match, 1 + 277));
  match.resize(4);  // within the length
  CHECK(!holds(Codec::kLz4Raw, match, 1 + 19));
  CHECK(!holds(Codec::kLz4Raw, {0xf0, 255, 255}, 525));
}

}  // namespace
}  // namespace nimble::parquet
