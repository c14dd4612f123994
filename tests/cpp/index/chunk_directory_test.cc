#include "nimble/index/chunk_directory.h"

#include "index/key_sets.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

struct Boundaries {
  std::string bytes;
  std::vector<uint32_t> ends;

  explicit Boundaries(const Keys& keys) {
    for (const std::string& k : keys) {
      bytes += k;
      ends.push_back(static_cast<uint32_t>(bytes.size()));
    }
  }
};

TEST(ChunkDirectory, FindsLikeStdLowerBound) {
  for (const size_t n : {1, 2, 3, 100, 1000}) {
    for (const NamedKeys& set : nasty_key_sets(n, n)) {
      const Boundaries b(set.keys);
      const auto directory = ChunkDirectory::open(as_bytes(b.bytes), b.ends);
      REQUIRE(directory.has_value());
      size_t last = 0;
      for (const std::string& probe : sorted(probes_for(set.keys, 1))) {
        const size_t want = expected_lower_bound(set.keys, probe);
        last = directory->find_from(last, as_bytes(probe));
        if (directory->find(as_bytes(probe)) != want || last != want) {
          return fail(set.name.c_str(), static_cast<int>(n), "wrong chunk");
        }
        if (want == directory->size()) continue;
        const double place = directory->place_in(want, as_bytes(probe));
        CHECK(place >= 0 && place <= 1);
      }
    }
  }
}

TEST(ChunkDirectory, Empty) {
  const auto directory = ChunkDirectory::open({}, {});
  REQUIRE(directory.has_value());
  CHECK_EQ(directory->find(as_bytes("a")), 0);
}

TEST(ChunkDirectory, HostileEnds) {
  const auto open = [](std::vector<uint32_t> ends) {
    return ChunkDirectory::open(as_bytes("abcdef"), ends).has_value();
  };
  CHECK(open({2, 6}));
  CHECK(!open({2, 5}));
  CHECK(!open({2, 7}));
  CHECK(!open({4, 2, 6}));
  CHECK(!open({}));
  CHECK(!open({0xffffffffu}));
}

TEST(ChunkDirectory, UnsortedBoundariesGiveSomeAnswer) {
  std::mt19937_64 rng(3);
  Keys keys =
      generate(50, [&](size_t) { return big_endian(rng(), 1 + rng() % 8); });
  std::shuffle(keys.begin(), keys.end(), rng);
  const Boundaries b(keys);
  const auto directory = ChunkDirectory::open(as_bytes(b.bytes), b.ends);
  REQUIRE(directory.has_value());
  for (const std::string& probe : probes_for(keys, 1)) {
    CHECK(directory->find(as_bytes(probe)) <= 50);
    CHECK(directory->find_from(20, as_bytes(probe)) >= 20);
  }
}

}  // namespace
}  // namespace nimble::testing
