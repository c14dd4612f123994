#include "nimble/key_chunk/key_chunk.h"

#include "index/key_sets.h"
#include "nimble/base/hash.h"
#include "testing/check.h"

namespace nimble::testing {
namespace {

constexpr uint32_t kIntervals[] = {1, 2, 16, 1u << 20};

ByteBuffer build(const KeyBuffer& keys, uint32_t interval, bool allow_fixed) {
  ByteBuffer out;
  build_key_chunk(keys, 0, keys.size(), {interval, allow_fixed}, &out);
  return out;
}

KeyChunk open_chunk(const ByteBuffer& bytes, size_t n) {
  auto chunk = KeyChunk::open(bytes.span(), static_cast<uint32_t>(n));
  REQUIRE(chunk.has_value());
  CHECK(KeyChunk::verify_checksum(bytes.span()).is_ok());
  return *chunk;
}

void check_reads(const KeyChunk& chunk, const Keys& keys) {
  KeyBuffer all;
  CHECK(chunk.decode(0, chunk.num_keys(), &all).is_ok());
  REQUIRE(all.size() == keys.size());
  ByteBuffer key;
  for (size_t i = 0; i < keys.size(); ++i) {
    CHECK(as_string(all.key(i)) == keys[i]);
    if (i % 7 != 0) continue;
    CHECK(chunk.key_at(static_cast<uint32_t>(i), &key).is_ok());
    CHECK(as_string(key.span()) == keys[i]);
  }
}

void check_seeks(const KeyChunk& chunk, const Keys& keys, uint64_t seed) {
  const Keys probes = sorted(probes_for(keys, seed));
  uint32_t last = 0;
  for (const std::string& probe : probes) {
    const uint32_t want = expected_lower_bound(keys, probe);
    const auto got = chunk.lower_bound(as_bytes(probe));
    REQUIRE(got.has_value());
    CHECK_EQ(*got, want);
    const auto next = chunk.lower_bound_from(last, as_bytes(probe));
    REQUIRE(next.has_value());
    CHECK_EQ(*next, want);
    const auto middle =
        chunk.lower_bound_from(chunk.num_keys() / 2, as_bytes(probe));
    REQUIRE(middle.has_value());
    CHECK_EQ(*middle, std::max(chunk.num_keys() / 2, want));
    for (uint32_t i = want > 0 ? want - 1 : 0;
         i < chunk.num_keys() && i <= want + 1; ++i) {
      const auto same = chunk.matches(i, as_bytes(probe));
      REQUIRE(same.has_value());
      CHECK_EQ(*same, keys[i] == probe);
    }
    chunk.prefetch(as_bytes(probe));
    last = *next;
  }
}

TEST(KeyChunk, SeeksLikeStdLowerBound) {
  for (const size_t n : {1, 2, 3, 17, 700}) {
    for (const NamedKeys& set : nasty_key_sets(n, 11 * n)) {
      const KeyBuffer keys = to_buffer(set.keys);
      for (const uint32_t interval : kIntervals) {
        for (const bool allow_fixed : {false, true}) {
          const int before = failures;
          const ByteBuffer bytes = build(keys, interval, allow_fixed);
          const KeyChunk chunk = open_chunk(bytes, n);
          check_reads(chunk, set.keys);
          check_seeks(chunk, set.keys, n + interval);
          if (failures > before) {
            fail(set.name.c_str(), static_cast<int>(interval),
                 "in this key set");
            return;
          }
          if (allow_fixed && chunk.mode() == KeyChunkMode::kFixed) break;
        }
      }
    }
  }
}

std::string to_hex_text(const ByteBuffer& bytes) {
  std::string out;
  for (const uint8_t b : bytes.span()) {
    out += "0123456789abcdef"[b >> 4];
    out += "0123456789abcdef"[b & 15];
  }
  return out;
}

// The worked examples of docs/format/key_chunks.md.
TEST(KeyChunk, DocumentedBytes) {
  Keys numbers;
  for (const uint64_t v : {1000, 1010, 1023, 1030}) {
    numbers.push_back(std::string(1, '\0') + big_endian(v + (1ull << 63)));
  }
  CHECK_EQ(
      to_hex_text(build(to_buffer(numbers), 16, true)),
      std::string("7319452a51f49e6d01040700800000000000020220e803000000000000"
                  "000000000a000000300000000000000000"));
  const Keys words = {std::string("\0apple\0", 7), std::string("\0apply\0", 7),
                      std::string("\0banana\0", 8)};
  CHECK_EQ(
      to_hex_text(build(to_buffer(words), 2, true)),
      std::string("c2448467067c5d0f02030100020212000000066170706c65004279000762"
                  "616e616e610000000a00"));
}

TEST(KeyChunk, ModeIsTheSmaller) {
  const auto mode = [](const char* name) {
    for (const NamedKeys& set : nasty_key_sets(1024, 1)) {
      if (set.name == name) {
        const ByteBuffer bytes = build(to_buffer(set.keys), 16, true);
        return open_chunk(bytes, 1024).mode();
      }
    }
    return KeyChunkMode{};
  };
  CHECK(mode("sequential") == KeyChunkMode::kFixed);
  CHECK(mode("random64") == KeyChunkMode::kFixed);
  CHECK(mode("equal") == KeyChunkMode::kFixed);
  CHECK(mode("jump62") == KeyChunkMode::kPrefix);
  CHECK(mode("text") == KeyChunkMode::kPrefix);
  CHECK(mode("hex") == KeyChunkMode::kPrefix);
}

TEST(KeyChunk, IntegersAreSmall) {
  const auto bytes_a_key = [](auto make) {
    Keys keys = generate(1024, [&](size_t i) {
      return std::string(1, '\0') + big_endian((1ull << 63) + make(i));
    });
    return build(to_buffer(keys, true), 16, true).size() / 1024.0;
  };
  CHECK(bytes_a_key([](size_t i) { return i; }) < 0.06);
  CHECK(bytes_a_key([](size_t i) { return i / 4; }) < 0.25);
  CHECK(bytes_a_key([](size_t i) { return i / 8 * 32 + i % 8; }) < 0.8);
}

TEST(KeyChunk, TargetLongerThanTheLargestKey) {
  const KeyBuffer keys = to_buffer({std::string(9, '\xff')});
  for (const bool allow_fixed : {false, true}) {
    const ByteBuffer bytes = build(keys, 16, allow_fixed);
    const KeyChunk chunk = open_chunk(bytes, 1);
    CHECK_EQ(*chunk.lower_bound(as_bytes(std::string(10, '\xff'))), 1);
    CHECK_EQ(*chunk.lower_bound(as_bytes(std::string(9, '\xff'))), 0);
  }
}

TEST(KeyChunk, SameInputSameBytes) {
  const KeyBuffer fixed = to_buffer({"aaaaaaab", "aaaaaaac"}, true);
  const KeyBuffer sized = to_buffer({"aaaaaaab", "aaaaaaac"});
  CHECK(build(fixed, 16, true).take() == build(sized, 16, true).take());
}

TEST(KeyChunk, WrongCountIsCorrupt) {
  const ByteBuffer bytes = build(to_buffer({"a", "b"}), 16, true);
  CHECK(!KeyChunk::open(bytes.span(), 3).has_value());
  CHECK(!KeyChunk::open(bytes.span(), 0).has_value());
}

TEST(KeyChunk, OutOfRangeIsRefused) {
  const ByteBuffer bytes = build(to_buffer({"a", "b"}), 16, true);
  const KeyChunk chunk = open_chunk(bytes, 2);
  ByteBuffer key;
  KeyBuffer keys;
  CHECK(!chunk.key_at(2, &key).is_ok());
  CHECK(!chunk.decode(1, 3, &keys).is_ok());
  CHECK_EQ(*chunk.lower_bound_from(9, as_bytes("a")), 2);
}

// Calls all functions on bytes that are not a chunk. They must return a result
// or an error, without sanitizer findings.
void exercise(const std::vector<uint8_t>& bytes, uint32_t n,
              const Keys& probes) {
  // An exact allocation, so that reads past its end are detected.
  const std::unique_ptr<uint8_t[]> copy(new uint8_t[bytes.size()]);
  std::copy(bytes.begin(), bytes.end(), copy.get());
  const ByteSpan span(copy.get(), bytes.size());
  const auto chunk = KeyChunk::open(span, n);
  if (!chunk) return;
  for (const std::string& p : probes) {
    const auto at = chunk->lower_bound(as_bytes(p));
    if (at.has_value()) CHECK(*at <= n);
    const auto from = chunk->lower_bound_from(n / 2, as_bytes(p));
    if (from.has_value()) CHECK(*from >= n / 2 && *from <= n);
  }
  ByteBuffer key;
  (void)chunk->key_at(n - 1, &key).is_ok();
  for (const std::string& probe : probes) {
    chunk->prefetch(as_bytes(probe));
    (void)chunk->matches(0, as_bytes(probe)).has_value();
    (void)chunk->matches(n - 1, as_bytes(probe)).has_value();
  }
  KeyBuffer all;
  (void)chunk->decode(0, n, &all).is_ok();
}

TEST(KeyChunk, HostileBytesGiveAnAnswerOrAnError) {
  std::mt19937_64 rng(5);
  for (const NamedKeys& set : nasty_key_sets(40, 3)) {
    Keys probes = probes_for(set.keys, 1);
    probes.resize(12);
    const KeyBuffer keys = to_buffer(set.keys);
    for (const bool allow_fixed : {false, true}) {
      const ByteBuffer good = build(keys, 4, allow_fixed);
      std::vector<uint8_t> bytes(good.data(), good.data() + good.size());
      for (size_t size = 0; size < bytes.size(); size += 1 + size / 60) {
        exercise({bytes.begin(), bytes.begin() + static_cast<long>(size)}, 40,
                 probes);
        CHECK(!KeyChunk::verify_checksum({bytes.data(), size}).is_ok());
      }
      for (int i = 0; i < 300; ++i) {
        std::vector<uint8_t> bad = bytes;
        // Most of the important bytes are at the beginning.
        const size_t at =
            i % 2 ? rng() % bad.size()
                  : 8 + rng() % std::min<size_t>(40, bad.size() - 8);
        bad[at] ^= static_cast<uint8_t>(1u << (rng() % 8));
        CHECK(!KeyChunk::verify_checksum(bad).is_ok());
        exercise(bad, 40, probes);
        bad[rng() % bad.size()] = 0xff;
        exercise(bad, 40, probes);
      }
    }
  }
}

}  // namespace
}  // namespace nimble::testing
