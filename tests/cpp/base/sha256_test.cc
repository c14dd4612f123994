// SHA-256 and HMAC against the examples of FIPS 180-4 and RFC 4231.
#include "nimble/base/sha256.h"

#include <string>

#include "testing/check.h"

namespace nimble {
namespace {

std::string hex(const Sha256& hash) {
  std::string out;
  for (const uint8_t b : hash) {
    out.push_back("0123456789abcdef"[b >> 4]);
    out.push_back("0123456789abcdef"[b & 15]);
  }
  return out;
}

TEST(Sha256, KnownHashes) {
  const auto of = [](const std::string& text) {
    return hex(sha256(as_bytes(text)));
  };
  CHECK_EQ(of(""),
           "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK_EQ(of("abc"),
           "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK_EQ(of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
           "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK_EQ(of(std::string(1000000, 'a')),
           "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, KnownCodes) {
  const auto of = [](const std::string& key, const std::string& text) {
    return hex(hmac_sha256(as_bytes(key), as_bytes(text)));
  };
  CHECK_EQ(of(std::string(20, '\x0b'), "Hi There"),
           "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK_EQ(of("Jefe", "what do ya want for nothing?"),
           "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK_EQ(of(std::string(131, '\xaa'),
              "Test Using Larger Than Block-Size Key - Hash Key First"),
           "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

}  // namespace
}  // namespace nimble
