// The fixed-size end of a file: a round trip, and all errors.
#include "nimble/format/postscript.h"

#include "nimble/base/hash.h"
#include "testing/check.h"

namespace nimble {
namespace {

constexpr uint64_t kFileSize = 1000;

Postscript postscript() {
  Postscript p;
  p.footer_offset = 100;
  p.footer_size = kFileSize - 100 - kPostscriptSize;
  p.footer_checksum = 0x0123456789abcdef;
  p.optional_features = uint64_t{1} << 63;
  p.minor = 7;
  return p;
}

using Bytes = std::array<uint8_t, kPostscriptSize>;

// Recomputes the checksum after a change.
void seal(Bytes* bytes) {
  store(bytes->data() + 48, checksum64({bytes->data(), 48}));
}

StatusCode code_of(const Bytes& bytes) {
  const auto parsed = Postscript::parse(bytes, kFileSize, "some.nimble");
  if (parsed) return StatusCode::kOk;
  CHECK(parsed.error().message().find("some.nimble") == 0);
  return parsed.error().code();
}

TEST(Postscript, RoundTrip) {
  const Postscript p = postscript();
  const auto back = Postscript::parse(p.serialize(), kFileSize, "f");
  REQUIRE(back.has_value());
  CHECK_EQ(back->footer_offset, p.footer_offset);
  CHECK_EQ(back->footer_size, p.footer_size);
  CHECK_EQ(back->footer_checksum, p.footer_checksum);
  CHECK_EQ(back->required_features, 0);
  CHECK_EQ(back->optional_features, p.optional_features);
  CHECK_EQ(back->major, kMajorVersion);
  CHECK_EQ(back->minor, 7);
}

TEST(Postscript, BytesAreThoseOfTheDocument) {
  const Bytes bytes = postscript().serialize();
  CHECK_EQ(bytes[0], 100);
  CHECK_EQ(bytes[8], 0x44);  // 836, little-endian
  CHECK_EQ(bytes[9], 0x03);
  CHECK_EQ(bytes[16], 0xef);
  CHECK_EQ(bytes[39], 0x80);
  CHECK_EQ(bytes[40], kMajorVersion);
  CHECK_EQ(bytes[42], 7);
  for (size_t i = 44; i < 48; ++i) CHECK_EQ(bytes[i], 0);
  CHECK_EQ(std::memcmp(bytes.data() + 56, "NIMBLEPY", 8), 0);
}

TEST(Postscript, EveryFlippedBitIsSeen) {
  const Bytes bytes = postscript().serialize();
  for (size_t bit = 0; bit < kPostscriptSize * 8; ++bit) {
    Bytes wrong = bytes;
    wrong[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    CHECK(code_of(wrong) == StatusCode::kCorrupt);
  }
}

TEST(Postscript, ShortTailsAreRefused) {
  const Bytes bytes = postscript().serialize();
  for (size_t n = 0; n < kPostscriptSize; ++n) {
    CHECK(!Postscript::parse(ByteSpan(bytes).last(n), n, "f").has_value());
  }
}

TEST(Postscript, OtherVersionsAreRefused) {
  Postscript p = postscript();
  p.major = kMajorVersion + 1;
  CHECK(code_of(p.serialize()) == StatusCode::kUnsupportedVersion);
  p.major = 0xffff;
  CHECK(code_of(p.serialize()) == StatusCode::kUnsupportedVersion);
  p.major = kMajorVersion;
  p.minor = 0xffff;  // newer, but readable
  CHECK(code_of(p.serialize()) == StatusCode::kOk);
}

TEST(Postscript, FilesOfPreReleasesAreToBeWrittenAgain) {
  Postscript unversioned = postscript();
  unversioned.major = 0;
  Bytes old = postscript().serialize();
  std::memcpy(old.data() + 56, kPrereleaseMagic, sizeof kPrereleaseMagic);
  for (const Bytes& bytes : {unversioned.serialize(), old}) {
    const auto parsed = Postscript::parse(bytes, kFileSize, "f");
    REQUIRE(!parsed.has_value());
    CHECK(parsed.error().code() == StatusCode::kUnsupportedVersion);
    CHECK(parsed.error().message().find("pre-release") != std::string::npos);
    CHECK(parsed.error().message().find("write the file again") !=
          std::string::npos);
  }
}

TEST(Postscript, UnknownRequiredFeaturesAreRefusedOptionalOnesNot) {
  for (int bit = 0; bit < 64; ++bit) {
    Postscript p = postscript();
    p.optional_features = uint64_t{1} << bit;
    CHECK(code_of(p.serialize()) == StatusCode::kOk);
    p.required_features = uint64_t{1} << bit;
    const bool known = (kSupportedFeatures >> bit & 1) != 0;
    CHECK(code_of(p.serialize()) ==
          (known ? StatusCode::kOk : StatusCode::kUnsupportedVersion));
  }
}

TEST(Postscript, FootersOutsideTheFileAreRefused) {
  const uint64_t room = kFileSize - kPostscriptSize;
  const std::pair<uint64_t, uint64_t> bad[] = {
      {0, room + 1},   {1, room},
      {room, 1},       {room + 1, 0},
      {UINT64_MAX, 0}, {UINT64_MAX, 2},
      {1, UINT64_MAX}, {100, UINT64_MAX - 99}};
  for (const auto& [offset, size] : bad) {
    Bytes bytes = postscript().serialize();
    store(bytes.data(), offset);
    store(bytes.data() + 8, size);
    seal(&bytes);
    CHECK(code_of(bytes) == StatusCode::kCorrupt);
  }
  Bytes bytes = postscript().serialize();
  store(bytes.data(), uint64_t{0});
  store(bytes.data() + 8, room);
  seal(&bytes);
  CHECK(code_of(bytes) == StatusCode::kOk);
}

}  // namespace
}  // namespace nimble
