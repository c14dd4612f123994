// The footer: a round trip, every check, and hostile bytes.
#include "nimble/format/footer.h"

#include <functional>

#include "nimble/format/constants.h"
#include "testing/check.h"
#include "types/random_array.h"

namespace nimble {
namespace {

using nimble::testing::every_field;
using nimble::testing::make_dictionary;
using nimble::testing::make_field;
using nimble::testing::Rng;
using nimble::testing::struct_of;

constexpr uint64_t kFileEnd = 10000;

FileFooter footer() {
  FileFooter f;
  f.num_rows = 300;
  Field point = make_field("+s", {make_field("i"), make_field("u")});
  point.metadata = {{"k", std::string("v\0\xff", 3)}};
  f.schema = struct_of({make_field("l"), point, make_field("tsu:UTC")});
  f.groups = {{{8, 100, 11}, 100}, {{200, 50, 12}, 300}};
  ClusterRoot root;
  root.columns = {{{0}, {true, false}}, {{1, 1}, {false, true}}};
  root.unique = true;
  root.key_bytes = {1, 2, 3, 4, 5};
  root.key_ends = {2, 5};
  root.first_key = {0};
  root.bloom = {300, 64, 13};
  root.num_keys = 300;
  f.cluster = root;
  f.zones = {{1, {400, 10, 14}, 0}, {3, {410, 10, 15}, 0}};
  f.dictionaries = {{2, {500, 30, 16}, 9}};
  f.metadata = {{"a", ""}, {std::string("\0", 1), "b"}};
  f.optional_sections = {{"later", {kFileEnd, 0, 17}}};
  f.node_bytes = {1, 2, 3, 4, 5, 6};
  f.key_stream_bytes = 21;
  f.index_bytes = 22;
  f.num_stripes = 23;
  f.writer = "test";
  return f;
}

Result<FileFooter> reparse(const FileFooter& f) {
  return FileFooter::parse(f.serialize(), kFileEnd);
}

bool same(const SectionRef& a, const SectionRef& b) {
  return a.offset == b.offset && a.size == b.size && a.checksum == b.checksum;
}

bool same(const std::vector<NodeSection>& a,
          const std::vector<NodeSection>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].node != b[i].node || a[i].rows != b[i].rows ||
        !same(a[i].section, b[i].section)) {
      return false;
    }
  }
  return true;
}

TEST(Footer, RoundTrip) {
  const FileFooter f = footer();
  const auto b = reparse(f);
  REQUIRE(b.has_value());
  CHECK_EQ(b->num_rows, 300);
  REQUIRE(b->groups.size() == 2);
  CHECK(same(b->groups[1].section, f.groups[1].section));
  CHECK_EQ(b->groups[1].end_row, 300);
  REQUIRE(b->cluster.has_value());
  REQUIRE(b->cluster->columns.size() == 2);
  CHECK(b->cluster->columns[1].path == std::vector<int>({1, 1}));
  CHECK(b->cluster->columns[0].order == (SortOrder{true, false}));
  CHECK(b->cluster->columns[1].order == (SortOrder{false, true}));
  CHECK(b->cluster->unique);
  CHECK(b->cluster->key_bytes == f.cluster->key_bytes);
  CHECK(b->cluster->key_ends == f.cluster->key_ends);
  CHECK(b->cluster->first_key == f.cluster->first_key);
  CHECK(same(b->cluster->bloom, f.cluster->bloom));
  CHECK_EQ(b->cluster->num_keys, 300);
  CHECK(same(b->zones, f.zones));
  CHECK(same(b->dictionaries, f.dictionaries));
  CHECK(b->metadata == f.metadata);
  REQUIRE(b->optional_sections.size() == 1);
  CHECK_EQ(b->optional_sections[0].name, "later");
  CHECK(b->node_bytes == f.node_bytes);
  CHECK_EQ(b->key_stream_bytes, 21);
  CHECK_EQ(b->index_bytes, 22);
  CHECK_EQ(b->num_stripes, 23);
  CHECK_EQ(b->writer, "test");
  CHECK_EQ(b->schema.type_name(), f.schema.type_name());
  CHECK(b->schema.children[1].metadata == f.schema.children[1].metadata);
  CHECK(f.serialize() == b->serialize());
}

// Unknown indexes do not change the data: a reader ignores indexes of unknown
// kinds and keeps the others in order.
TEST(Footer, IndexesOfUnknownKindsAreLeftOut) {
  FileFooter f = footer();
  const auto index = [](int kind, uint64_t keys) {
    SecondaryIndexRef ref;
    ref.kind = static_cast<IndexKind>(kind);
    ref.columns = {{{0}, {}}};
    ref.root = {600, 20, 18};
    ref.num_keys = keys;
    return ref;
  };
  f.indexes = {index(0, 1), index(2, 2), index(4, 3), index(255, 4),
               index(1, 5)};
  // Not validated: known kinds with these values would be rejected.
  f.indexes[2].columns = {{{77}, {}}};
  f.indexes[3].root = {UINT64_MAX, 10, 0};
  const auto b = reparse(f);
  REQUIRE(b.has_value());
  REQUIRE(b->indexes.size() == 2);
  CHECK(b->indexes[0].kind == IndexKind::kSorted);
  CHECK_EQ(b->indexes[0].num_keys, 2);
  CHECK(b->indexes[1].kind == IndexKind::kHash);
  CHECK_EQ(b->indexes[1].num_keys, 5);
  for (const int kind : {1, 2, 3}) {
    f.indexes = {index(kind, 1)};
    f.indexes[0].columns = {{{77}, {}}};
    CHECK(!reparse(f).has_value());
    f.indexes = {index(kind, 1)};
    f.indexes[0].root = {UINT64_MAX, 10, 0};
    CHECK(!reparse(f).has_value());
  }
}

TEST(Footer, EverySchemaComesBack) {
  FileFooter f;
  f.schema = struct_of(every_field());
  const auto b = reparse(f);
  REQUIRE(b.has_value());
  CHECK_EQ(b->schema.type_name(), f.schema.type_name());
  CHECK(!b->cluster.has_value());
}

TEST(Footer, NoRowsNeedNoGroups) {
  FileFooter f;
  f.schema = struct_of({});
  CHECK(reparse(f).has_value());
}

// Values that a writer never writes.
TEST(Footer, ContradictionsAreRefused) {
  using Change = std::function<void(FileFooter*)>;
  const Change changes[] = {
      [](FileFooter* f) { f->num_rows = 299; },
      [](FileFooter* f) { f->num_rows = UINT64_MAX; },
      [](FileFooter* f) { f->groups.clear(); },
      [](FileFooter* f) { f->groups[0].end_row = 0; },
      [](FileFooter* f) { f->groups[0].end_row = 300; },
      [](FileFooter* f) { f->groups[0].end_row = 301; },
      [](FileFooter* f) { f->groups[1].section = {kFileEnd - 9, 10, 0}; },
      [](FileFooter* f) { f->groups[1].section = {UINT64_MAX, 10, 0}; },
      [](FileFooter* f) { f->schema = make_field("i"); },
      [](FileFooter* f) { f->schema.children[0].format = "?"; },
      [](FileFooter* f) { f->cluster->columns.clear(); },
      [](FileFooter* f) { f->cluster->columns[0].path.clear(); },
      [](FileFooter* f) { f->cluster->columns[0].path = {3}; },
      [](FileFooter* f) { f->cluster->columns[0].path = {-1}; },
      [](FileFooter* f) { f->cluster->columns[0].path = {0, 0}; },
      [](FileFooter* f) { f->cluster->columns[1].path = {1, 2}; },
      [](FileFooter* f) { f->cluster->key_ends = {2}; },
      [](FileFooter* f) { f->cluster->key_ends = {2, 3, 5}; },
      [](FileFooter* f) { f->cluster->key_ends = {3, 2}; },
      [](FileFooter* f) { f->cluster->key_ends = {2, 6}; },
      [](FileFooter* f) { f->cluster->bloom = {kFileEnd, 1, 0}; },
      [](FileFooter* f) { f->zones[1].section = {0, kFileEnd + 1, 0}; },
      [](FileFooter* f) { f->dictionaries[0].section = {kFileEnd + 1, 0, 0}; },
      [](FileFooter* f) { f->optional_sections[0].section.size = 1; },
  };
  for (size_t i = 0; i < std::size(changes); ++i) {
    FileFooter f = footer();
    changes[i](&f);
    const auto parsed = reparse(f);
    if (parsed.has_value())
      nimble::testing::fail(__FILE__, __LINE__, "change " + std::to_string(i));
  }
}

// Regression: reading a dictionary of dictionaries locked one mutex twice and
// never returned.
TEST(Footer, TypesThatNoWriterStoresAreCorrupt) {
  Field nested = make_dictionary("c", make_field("u"));
  nested.dictionary[0] =
      struct_of({make_field("l"), make_dictionary("s", make_field("u"))});
  Field runs = make_field("+r", {make_field("i"), make_field("u")});
  runs.children[1] = make_field("+r", {make_field("i"), make_field("u")});
  for (const Field& field : {nested, runs}) {
    FileFooter f = footer();
    f.schema.children[2] = field;
    const auto parsed = reparse(f);
    REQUIRE(!parsed.has_value());
    CHECK(parsed.error().code() == StatusCode::kCorrupt);
  }
}

TEST(Footer, DeepSchemasAreRefused) {
  FileFooter f;
  Field deep = make_field("i");
  for (int i = 0; i < 100; ++i) {
    Field outer;
    outer.format = "+l";
    outer.children.push_back(std::move(deep));
    deep = std::move(outer);
  }
  f.schema.format = "+s";
  f.schema.children.push_back(std::move(deep));
  CHECK(!reparse(f).has_value());
}

TEST(Footer, CutShortIsRefused) {
  const std::vector<uint8_t> bytes = footer().serialize();
  CHECK(!FileFooter::parse({}, kFileEnd).has_value());
  for (size_t n = 0; n < bytes.size(); n += 1 + n / 64) {
    // Most of these fail. Those that do not must be safe to access.
    const auto parsed = FileFooter::parse(ByteSpan(bytes).first(n), kFileEnd);
    if (parsed) CHECK(!parsed->serialize().empty());
  }
}

// A hostile writer can make checksums match any bytes. Any outcome except
// undefined behaviour is correct (run under sanitizers).
TEST(Footer, HostileBytes) {
  const std::vector<uint8_t> bytes = footer().serialize();
  Rng rng(6);
  size_t refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<uint8_t> wrong = bytes;
    for (uint64_t n = 1 + rng() % 3; n > 0; --n) {
      uint8_t& b = wrong[rng() % wrong.size()];
      const uint8_t values[] = {0,
                                1,
                                4,
                                8,
                                0x7f,
                                0x80,
                                0xff,
                                static_cast<uint8_t>(b ^ 4),
                                static_cast<uint8_t>(b + 4),
                                static_cast<uint8_t>(b - 4)};
      b = values[rng() % std::size(values)];
    }
    const auto parsed = FileFooter::parse(wrong, kFileEnd);
    if (!parsed) {
      CHECK(!parsed.error().message().empty());
      ++refused;
      continue;
    }
    CHECK_EQ(parsed->num_rows,
             parsed->groups.empty() ? 0 : parsed->groups.back().end_row);
    CHECK(!parsed->serialize().empty());
  }
  CHECK(refused > 1000);
}

}  // namespace
}  // namespace nimble
