// The two hashes used in files: the published vectors of XXH3-64 and XXH64.
#include "nimble/base/hash.h"

#include "testing/check.h"

namespace nimble {
namespace {

TEST(Hash, ChecksumIsXxh3) {
  CHECK_EQ(checksum64({}), 0x2d06800538d394c2u);
  CHECK_EQ(checksum64(as_bytes("a")), 0xe6c632b61e964e1fu);
  CHECK_EQ(checksum64(as_bytes("abc")), 0x78af5f94892f3950u);
}

TEST(Hash, KeyHashIsXxh64) {
  CHECK_EQ(key_hash64({}), 0xef46db3751d8e999u);
  CHECK_EQ(key_hash64(as_bytes("a")), 0xd24ec4f1a98c6e5bu);
  CHECK_EQ(key_hash64(as_bytes("abc")), 0x44bc2cf5ad770999u);
}

// Lengths at which XXH3 changes its method: what is pinned by docs/format.
TEST(Hash, EveryBitCounts) {
  for (const size_t n : {1, 3, 4, 8, 9, 16, 17, 128, 129, 240, 241, 2000}) {
    std::string text(n, 'x');
    const uint64_t sum = checksum64(as_bytes(text));
    const uint64_t hash = key_hash64(as_bytes(text));
    for (size_t i = 0; i < n; i += 1 + n / 40) {
      text[i] ^= 0x10;
      CHECK(checksum64(as_bytes(text)) != sum);
      CHECK(key_hash64(as_bytes(text)) != hash);
      text[i] ^= 0x10;
    }
  }
}

}  // namespace
}  // namespace nimble
