// Sampled key chunks return the same as chunks with every key.
#include "index/key_sets.h"
#include "nimble/key_chunk/key_chunk.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

constexpr uint64_t kFirstRow = 1000;  // of the chunk, in the file

class ListedKeys final : public KeySource {
 public:
  explicit ListedKeys(const KeyBuffer& keys) : keys_(keys) {}
  Result<LowerBound> find(uint64_t begin, uint64_t end,
                          const KeySearch& search) const override {
    ++searches;
    LowerBound out{end, false};
    for (uint64_t row = end; row > begin; --row) {
      CHECK(shared_prefix(keys_.key(row - 1 - kFirstRow), search.target) >=
            search.shared);
      most_shared = std::max(most_shared, search.shared);
      const int sign = *compare(row - 1, search.target);
      if (sign >= 0) out = {row - 1, sign == 0};
    }
    return out;
  }
  Result<int> compare(uint64_t row, ByteSpan target) const override {
    return compare_bytes(keys_.key(row - kFirstRow), target);
  }
  void prefetch(uint64_t, uint64_t, const KeySearch&) const override {}
  Status read_keys(uint64_t begin, uint64_t end,
                   KeyBuffer* out) const override {
    for (uint64_t row = begin; row < end; ++row) {
      out->push_back(keys_.key(row - kFirstRow));
    }
    return Status::ok();
  }
  mutable int searches = 0;
  mutable size_t most_shared = 0;

 private:
  const KeyBuffer& keys_;
};

ByteBuffer build(const KeyBuffer& keys, uint32_t step, bool* sampled) {
  KeyChunkOptions options;
  options.sample_step = step;
  ByteBuffer out;
  *sampled = build_key_chunk(keys, 0, keys.size(), options, &out);
  return out;
}

TEST(SampledKeyChunk, SeeksLikeStdLowerBound) {
  int met = 0;
  size_t shared = 0;
  for (const NamedKeys& set : nasty_key_sets(700, 5)) {
    const KeyBuffer keys = to_buffer(set.keys);
    const ListedKeys source(keys);
    for (const uint32_t step : {2u, 16u, 170u}) {
      bool sampled = false;
      const ByteBuffer bytes = build(keys, step, &sampled);
      if (!sampled) continue;
      ++met;
      const auto chunk = KeyChunk::open(bytes.span(), 700, &source, kFirstRow);
      REQUIRE(chunk.has_value());
      CHECK_EQ(chunk->num_keys(), 700u);
      CHECK_EQ(chunk->step(), step);
      uint32_t last = 0;
      for (const std::string& probe : sorted(probes_for(set.keys, step))) {
        const uint32_t want = expected_lower_bound(set.keys, probe);
        CHECK_EQ(*chunk->lower_bound(as_bytes(probe)), want);
        CHECK_EQ(*chunk->lower_bound_from(last, as_bytes(probe)), want);
        CHECK_EQ(*chunk->lower_bound_from(333, as_bytes(probe)),
                 std::max(333u, want));
        const auto gap = chunk->gap(as_bytes(probe));
        const auto found = chunk->find(as_bytes(probe), *gap);
        CHECK_EQ(found->at, want);
        const bool there = want < 700 && set.keys[want] == probe;
        CHECK_EQ(found->is_equal, there);
        if (want < 700) {
          CHECK_EQ(*chunk->matches(want, as_bytes(probe)), there);
        }
        last = want;
      }
      ByteBuffer key;
      for (uint32_t i = 0; i < 700; i += 3) {
        CHECK(chunk->key_at(i, &key).is_ok());
        CHECK(as_string(key.span()) == set.keys[i]);
      }
      shared = std::max(shared, source.most_shared);
    }
  }
  CHECK(met > 6);
  CHECK(shared > 8);  // more than a common prefix tells
}

TEST(SampledKeyChunk, StoredKeysNeedNoColumns) {
  Keys wide;
  for (int i = 0; i < 256; ++i) {
    wide.push_back(big_endian(uint64_t(i) * 0x9e3779b97f4a7c15) +
                   big_endian(uint64_t(i) * 0xc2b2ae3d27d4eb4f));
  }
  const KeyBuffer random = to_buffer(sorted(wide));
  const ListedKeys columns(random);
  bool sampled = false;
  const ByteBuffer small = build(random, 16, &sampled);
  REQUIRE(sampled);
  CHECK(small.size() < 256 * 2);
  const auto chunk = KeyChunk::open(small.span(), 256, &columns, kFirstRow);
  REQUIRE(chunk.has_value());
  for (uint32_t i = 0; i < 256; ++i) {
    CHECK(*chunk->matches(i, random.key(i)));
  }
  CHECK_EQ(columns.searches, 0);
  for (uint32_t i = 33; i < 49; ++i) {
    CHECK_EQ(*chunk->lower_bound(random.key(i)), i);
    const KeyGap gap = *chunk->gap(random.key(i));
    CHECK_EQ(gap.begin, 33u);
    CHECK_EQ(gap.end, 48u);
  }
  CHECK_EQ(columns.searches, 16);
  CHECK(!KeyChunk::open(small.span(), 256).has_value());
  bool again = true;
  build(random, 64 + 1, &again);
  CHECK(!again);  // fewer than four samples
}

TEST(SampledKeyChunk, HostileStepsAreRefused) {
  Keys wide;
  for (int i = 0; i < 64; ++i) {
    wide.push_back(big_endian(uint64_t(i) * 0x9e3779b97f4a7c15) +
                   std::string(20, 'x'));
  }
  const KeyBuffer keys = to_buffer(sorted(wide));
  const ListedKeys source(keys);
  bool sampled = false;
  ByteBuffer bytes = build(keys, 16, &sampled);
  REQUIRE(sampled);
  const size_t at =
      8 + 1 + 1 + 1;  // checksum, mode, n, size of an empty prefix
  CHECK_EQ(bytes.data()[at], 16);
  for (const uint8_t step : {uint8_t{0}, uint8_t{1}}) {
    bytes.data()[at] = step;
    CHECK(!KeyChunk::open(bytes.span(), 64, &source, kFirstRow).has_value());
  }
  bytes.data()[at] = 16;
  bytes.data()[at + 1] = 3;  // samples of samples
  CHECK(!KeyChunk::open(bytes.span(), 64, &source, kFirstRow).has_value());
}

}  // namespace
}  // namespace nimble::testing
