// Serving manifests: a round trip, and damaged bytes.
#include "nimble/serve/snapshot/serving_manifest.h"

#include "nimble/base/hash.h"
#include "reader/columns.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

ServingManifest example() {
  ServingManifest m;
  m.name = "shop.users";
  m.uuid = "u";
  m.snapshot = -7;
  m.created_ms = 5;
  m.schema = struct_of({make_field("l"), make_field("u"), make_field("b")});
  m.schema.children[0].name = "id";
  m.schema.children[1].name = "name";
  m.schema.children[2].name = "is_new";
  m.defaults = {{1, "none"}, {2, std::nullopt}};
  m.lookup_key = ServedKey{{{{0}, {}}}, {"a", "bb"}, {"a", "c"}};
  m.cluster_key =
      ServedKey{{{{1}, {true, true}}, {{0}, {}}}, {"", ""}, {"\xff", "\xff"}};
  m.has_primary_key = true;
  m.files.resize(2);
  m.files[0] = {"/a", 100, 10, {{2, std::string(1, '\1')}}, nullptr};
  const std::vector<uint64_t> rows = {0, 3, 4, 199999};
  m.files[1] = {"/b", 200, 200000, {}, std::make_shared<RowBitmap>(rows)};
  return m;
}

TEST(ServingManifest, RoundTrip) {
  const ServingManifest m = example();
  const auto read = ServingManifest::parse(m.serialize());
  REQUIRE(read.has_value());
  CHECK(read->name == m.name && read->uuid == m.uuid);
  CHECK(read->snapshot == m.snapshot && read->created_ms == m.created_ms);
  CHECK(read->has_primary_key);
  REQUIRE(read->schema.children.size() == 3u);
  CHECK(read->schema.children[1].name == "name");
  CHECK(read->defaults[0].value == "none" && !read->defaults[1].value);
  CHECK(read->lookup_key->lower == m.lookup_key->lower);
  CHECK(read->cluster_key->upper == m.cluster_key->upper);
  CHECK(read->cluster_key->columns[0].order.descending);
  REQUIRE(read->files.size() == 2u);
  CHECK(read->files[0].path == "/a" && read->files[0].deleted == nullptr);
  CHECK(read->files[0].constants[0].value == std::string(1, '\1'));
  std::vector<uint64_t> rows;
  read->files[1].deleted->append_rows(&rows);
  CHECK(rows == std::vector<uint64_t>({0, 3, 4, 199999}));
  CHECK(read->serialize() == m.serialize());
}

TEST(ServingManifest, EveryCutAndEveryFlipIsAnError) {
  const std::vector<uint8_t> bytes = example().serialize();
  for (size_t n = 0; n < bytes.size(); ++n) {
    CHECK(!ServingManifest::parse(ByteSpan(bytes).first(n)));
  }
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::vector<uint8_t> flipped = bytes;
    flipped[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    CHECK(!ServingManifest::parse(flipped));
  }
}

// With a right checksum, damage gives an error or a manifest, and no access
// outside of the bytes.
TEST(ServingManifest, HostileBytesAreBounded) {
  const std::vector<uint8_t> bytes = example().serialize();
  for (size_t i = 16; i < bytes.size(); ++i) {
    for (const int value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      std::vector<uint8_t> hostile = bytes;
      hostile[i] = static_cast<uint8_t>(value);
      store<uint64_t>(&hostile[8], checksum64(ByteSpan(hostile).subspan(16)));
      const auto read = ServingManifest::parse(hostile);
      if (read) CHECK(!read->serialize().empty());
    }
  }
}

TEST(ServingManifest, InconsistentManifestsAreErrors) {
  const auto fails = [](auto change) {
    ServingManifest m = example();
    change(&m);
    return !ServingManifest::parse(m.serialize());
  };
  CHECK(fails([](auto* m) { m->files[0].path = "relative"; }));
  CHECK(fails([](auto* m) { m->files[1].rows = 199999; }));
  CHECK(fails([](auto* m) { m->lookup_key->lower.pop_back(); }));
  CHECK(fails([](auto* m) { m->defaults[0].column = 3; }));
  CHECK(fails([](auto* m) { m->files[0].constants[0].value = "ab"; }));
  CHECK(fails([](auto* m) { m->lookup_key->columns[0].path = {9}; }));
}

}  // namespace
}  // namespace nimble::testing
