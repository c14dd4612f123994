#include "nimble/index/cluster_index_writer.h"

#include "index/key_sets.h"
#include "nimble/index/chunk_directory.h"
#include "nimble/key/key_decoder.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

ClusterIndexOptions options(uint32_t chunk_keys, bool unique = false) {
  ClusterIndexOptions o;
  o.chunk_keys = chunk_keys;
  o.unique = unique;
  return o;
}

// A group as a reader has it: a directory over its boundaries, and chunks.
struct Group {
  GroupKeys keys;
  std::vector<uint32_t> ends;
  std::vector<size_t> offsets;

  explicit Group(GroupKeys k) : keys(std::move(k)) {
    size_t offset = 0;
    for (size_t i = 0; i < keys.chunks.size(); ++i) {
      ends.push_back(static_cast<uint32_t>(keys.boundaries.offset(i + 1)));
      offsets.push_back(offset);
      offset += keys.chunks[i].size;
    }
    REQUIRE(offset == keys.blob.size());
  }
  ByteSpan chunk(size_t i) const {
    return keys.blob.span().subspan(offsets[i], keys.chunks[i].size);
  }
  // Row of the first key >= target within the group.
  uint64_t find(const std::string& target) const {
    auto directory = ChunkDirectory::open(
        {keys.boundaries.data(), keys.boundaries.num_bytes()}, ends);
    REQUIRE(directory.has_value());
    const size_t at = directory->find(as_bytes(target));
    uint64_t row = 0;
    for (size_t i = 0; i < at; ++i) row += keys.chunks[i].num_keys;
    if (at == keys.chunks.size()) return row;
    auto chunk_view = KeyChunk::open(chunk(at), keys.chunks[at].num_keys);
    REQUIRE(chunk_view.has_value());
    return row + *chunk_view->lower_bound(as_bytes(target));
  }
};

TEST(ClusterIndexWriter, GroupsAnswerLikeTheSortedKeys) {
  std::mt19937_64 rng(4);
  for (const uint32_t chunk_keys : {1, 2, 16, 100}) {
    for (const NamedKeys& set : nasty_key_sets(500, chunk_keys)) {
      const KeyBuffer keys = to_buffer(set.keys);
      ClusterIndexWriter writer(options(chunk_keys));
      for (size_t at = 0; at < keys.size();) {
        const size_t end = std::min(keys.size(), at + rng() % 150);
        CHECK(writer.add(keys, at, end).is_ok());
        at = end;
      }
      CHECK_EQ(writer.num_rows(), 500);
      const Group group(writer.finish_group());
      CHECK_EQ(group.keys.num_keys, 500);
      CHECK_EQ(group.keys.chunks.size(), div_ceil(500, chunk_keys));
      CHECK(as_string(group.keys.first_key.span()) == set.keys.front());
      CHECK(as_string(group.keys.last_key.span()) == set.keys.back());
      CHECK(as_string(group.keys.boundaries.key(group.ends.size() - 1)) ==
            set.keys.back());
      for (const std::string& probe : probes_for(set.keys, 2)) {
        if (group.find(probe) != expected_lower_bound(set.keys, probe)) {
          return fail(set.name.c_str(), static_cast<int>(chunk_keys),
                      "wrong row");
        }
      }
      CHECK(writer.finish_group().chunks.empty());
    }
  }
}

TEST(ClusterIndexWriter, BatchesDoNotChangeBytes) {
  std::mt19937_64 rng(4);
  const Keys all = generate(
      3000, [&](size_t i) { return std::string(1, '\0') + big_endian(i * 5); });
  const KeyBuffer keys = to_buffer(all, true);
  ClusterIndexWriter one(options(256)), many(options(256));
  CHECK(one.add(keys, 0, 3000).is_ok());
  for (size_t at = 0; at < 3000;) {
    const size_t end = std::min<size_t>(3000, at + rng() % 700);
    CHECK(many.add(keys, at, end).is_ok());
    at = end;
  }
  CHECK(one.finish_group().blob.take() == many.finish_group().blob.take());
}

TEST(ClusterIndexWriter, LongKeysMakeShortChunks) {
  ClusterIndexOptions o = options(1024);
  o.chunk_bytes = 1000;
  const Keys all = generate(
      100, [](size_t i) { return std::string(95, 'x') + big_endian(i, 5); });
  for (const bool fixed : {false, true}) {
    ClusterIndexWriter writer(o);
    CHECK(writer.add(to_buffer(all, fixed), 0, 7).is_ok());
    CHECK(writer.add(to_buffer(all, fixed), 7, 100).is_ok());
    const Group group(writer.finish_group());
    CHECK_EQ(group.keys.chunks.size(), 10);
    for (const KeyChunkInfo& c : group.keys.chunks) CHECK_EQ(c.num_keys, 10);
    for (size_t i = 0; i < 100; ++i) CHECK_EQ(group.find(all[i]), i);
  }
}

TEST(ClusterIndexWriter, DuplicatesSpanChunksAndGroups) {
  const KeyBuffer keys = to_buffer(Keys(10, "same"));
  ClusterIndexWriter writer(options(3));
  CHECK(writer.add(keys, 0, 5).is_ok());
  const Group first(writer.finish_group());
  CHECK(writer.add(keys, 5, 10).is_ok());
  const Group second(writer.finish_group());
  CHECK_EQ(first.keys.chunks.size(), 2);
  CHECK_EQ(first.find("same"), 0);
  CHECK_EQ(second.find("same"), 0);
  CHECK_EQ(second.find("samf"), 5);
}

void check_error(const Status& s, StatusCode code, const char* text) {
  CHECK(s.code() == code);
  if (s.message().find(text) == std::string_view::npos) {
    fail(__FILE__, __LINE__, std::string(s.message()));
  }
}

TEST(ClusterIndexWriter, DisorderNamesRowsAndKeys) {
  ClusterIndexWriter writer(options(4));
  CHECK(writer.add(to_buffer({"a", "b"}), 0, 2).is_ok());
  check_error(writer.add(to_buffer({"c", "e", "d"}), 0, 3),
              StatusCode::kKeyOrder, "row 4 (key 0x64) and row 3 (key 0x65)");
  ClusterIndexWriter across(options(4));
  CHECK(across.add(to_buffer({"a", "b"}), 0, 2).is_ok());
  (void)across.finish_group();
  check_error(across.add(to_buffer({"a"}), 0, 1), StatusCode::kKeyOrder,
              "row 2 (key 0x61) and row 1 (key 0x62)");
}

TEST(ClusterIndexWriter, UniqueRefusesDuplicates) {
  ClusterIndexOptions o = options(4, true);
  o.describe = [](ByteSpan key) {
    return "<" + std::string(as_string(key)) + ">";
  };
  ClusterIndexWriter writer(o);
  CHECK(writer.add(to_buffer({"a", "b"}), 0, 2).is_ok());
  check_error(writer.add(to_buffer({"c", "c"}), 0, 2),
              StatusCode::kDuplicateKey,
              "row 3 (key <c>) and row 2 have the same key");
  ClusterIndexWriter across(o);
  CHECK(across.add(to_buffer({"a", "b"}), 0, 2).is_ok());
  check_error(across.add(to_buffer({"b", "c"}), 0, 2),
              StatusCode::kDuplicateKey, "<b>");
}

TEST(ClusterIndexWriter, FindsDisorderInKeysOfEveryWidth) {
  std::mt19937_64 rng(6);
  for (size_t width = 1; width <= 24; ++width) {
    for (int round = 0; round < 50; ++round) {
      Keys keys = generate(40, [&](size_t) {
        std::string k(width, 'k');
        k[rng() % width] = static_cast<char>(rng());
        k[rng() % width] = static_cast<char>(rng());
        return k;
      });
      if (round % 2) std::swap(keys[rng() % 40], keys[rng() % 40]);
      const KeyBuffer fixed = to_buffer(keys, true), sized = to_buffer(keys);
      for (const bool strict : {false, true}) {
        size_t want = 1;
        while (want < 40 && (strict ? keys[want - 1] < keys[want]
                                    : keys[want - 1] <= keys[want]))
          ++want;
        CHECK_EQ(find_disorder(fixed, 0, 40, strict), want);
        CHECK_EQ(find_disorder(sized, 0, 40, strict), want);
      }
    }
  }
}

TEST(ClusterIndexWriter, SeparatorsAreBetweenAndShort) {
  const auto between = [](const std::string& a, const std::string& b) {
    ByteBuffer s;
    separator(as_bytes(a), as_bytes(b), &s);
    const std::string text(as_string(s.span()));
    CHECK(a <= text);
    CHECK(a == b ? text == b : text < b);
    CHECK(text.size() <= a.size());
    return text;
  };
  CHECK(between("abcdef", "abzz") == "abd");
  CHECK(between("abcdef", "abdz") == "abd");
  CHECK(between("abcdef", "abd") == "abce");
  CHECK(between("ab", "abc") == "ab");
  CHECK(between("ab", "ab") == "ab");
  CHECK(between("a\xff\xff"
                "ab",
                "b") ==
        "a\xff\xff"
        "b");
  std::mt19937_64 rng(2);
  const Keys keys = generate(4000, [&](size_t) {
    std::string s(rng() % 6, ' ');
    for (char& c : s) c = "\x00\x01\x61\xfe\xff"[rng() % 5];
    return s;
  });
  for (size_t i = 0; i + 1 < keys.size(); ++i) between(keys[i], keys[i + 1]);
}

}  // namespace
}  // namespace nimble::testing
